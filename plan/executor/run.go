package executor

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/internal/wait"
)

// run is a launch on the host. Its workers (usually one, the stream's goroutine) execute these steps:
//
//  1. place     decide where input and output are; copy what must be elsewhere
//  2. publish   write the addresses and the launch number to the control arena; wake peers that may sleep until this
//     happens
//  3. blocks    a worker advances its thread blocks in turn, each as far as possible (block.go); when none makes
//     progress, the worker sleeps at the door
//  4. finish    copy the output back, scale an average, compare with what the peers executed
//
// Memory order: counters, packet flags and records are sequentially consistent atomics; data is written before and read
// after them. A worker announces itself at the door (package wait) and then checks its condition; a writer changes the
// condition and then checks the door. So no wakeup is lost.
//
// A plan has one run. Launches in flight are tickets. Their order (host.Order) lets one execute at a time, on whatever
// streams; it owns the run.
type run struct {
	h *hostEngine
	launch
	scratch *scratch
	workers int

	placement
	epoch  uint32
	op     datatype.Op // of reductions that leave the operator to the caller
	limit  wait.Limit
	bases  []rankBuffers // by rank
	mapMu  sync.Mutex    // held while a peer's buffers are resolved
	blocks []block
	worker []worker
	broken atomic.Bool // a worker has failed: the launch fails, also where the others have done their part
}

type span struct {
	base pointerBytes
	size int64
}

// worker is the state of one of the launch's goroutines.
type worker struct {
	r     *run
	index int
	srcs  [][]byte
	block *host.Block
	cond  func() bool // w.ready, bound once
}

// ready reports whether one of the worker's blocks can make progress.
func (w *worker) ready() bool {
	for i := w.index; i < len(w.r.blocks); i += w.r.workers {
		if bl := &w.r.blocks[i]; !bl.done && bl.ready() {
			return true
		}
	}
	return w.block.Abort.Load() != 0
}

func newRun(h *hostEngine) *run {
	r := &run{h: h, bases: make([]rankBuffers, h.x.e.size), blocks: make([]block, len(h.x.program.blocks)),
		worker: make([]worker, h.cores)}
	for i := range r.worker {
		w := &r.worker[i]
		w.r, w.index, w.cond = r, i, w.ready
	}
	return r
}

// warn logs that the launch has waited long for its peers. With several workers it cannot name the peer.
func (r *run) warn() {
	peer, where := -1, "several"
	for i := 0; i < len(r.blocks) && r.workers == 1 && peer < 0; i++ {
		if bl := &r.blocks[i]; !bl.done {
			peer, where = bl.waiting()
		}
	}
	slog.Warn("a plan waits long for a peer: does that one execute it, too? GOCCL_OP_TIMEOUT ends the wait",
		"plan", r.h.x.plan.Name, "seq", r.Seq, "rank", r.h.x.e.rank, "waits_for", peer, "op", where,
		"for", r.h.x.e.cfg.StallWarning)
}

// failed records the first failure and aborts the executor: counters are out of step from now on.
func (r *run) failed(err error) error {
	r.broken.Store(true)
	err = r.h.x.fail(r.Seq, -1, err)
	r.h.x.e.Abort(err)
	return err
}

// revoke ends the access to the caller's buffers by peers of other processes, after a failure: a peer that was
// stopped and continues may still write to buffers that it has mapped.
func (r *run) revoke() (err error) {
	touched := r.h.x.program.touched
	in, out := granted{r.input, r.inSize}, granted{r.output, r.outSize}
	list := []granted{}
	if touched[0] && !r.stageIn {
		list = append(list, in)
	}
	if touched[1] && !r.stageOut {
		list = append(list, out)
	}
	// input and output are one memory, and only the whole has pages that nothing else is in
	if r.h.x.plan.InPlace && len(list) > 0 {
		at := min(in.at, out.at)
		list = []granted{{at, int64(max(in.at+device.Ptr(in.size), out.at+device.Ptr(out.size)) - at)}}
	}
	for _, l := range list {
		if r.h.local || l.size == 0 {
			continue
		}
		if e := r.h.dev.Revoke(l.at, l.size); e != nil {
			err = errors.Join(err,
				fmt.Errorf("a peer may still write to the %d bytes at %#x: free them, do not use them again: %w", l.size,
					uintptr(l.at), e))
		}
	}
	return err
}

// granted is memory of the caller that peers may write to.
type granted struct {
	at   device.Ptr
	size int64
}

// begin performs steps 1 and 2.
func (r *run) begin() error {
	h, x := r.h, r.h.x
	own := h.arenas[x.e.rank]
	if err := r.limit.Check(); err != nil {
		return x.e.ended(err, "it was about to begin")
	}
	r.epoch = uint32(r.number%math.MaxUint32) + 1
	r.op = r.Op
	if r.op == datatype.Avg || r.op == datatype.PreMulSum {
		r.op = datatype.Sum
	}
	r.broken.Store(false)
	r.release()
	if err := r.arrange(); err != nil {
		return err
	}
	rec := own.launch(r.number)
	r.describe(&rec.buffer[0], 0, r.input, r.inSize, 0)
	r.describe(&rec.buffer[1], 1, r.output, r.outSize, rec.buffer[0].number)
	rec.signature.Store(signature(&r.Args))
	rec.number.Store(r.number + 1)
	for _, w := range x.program.watchers {
		h.arenas[w].door().Wake()
	}
	for i := range r.bases {
		r.bases[i].known.Store(i == x.e.rank)
	}
	me := &r.bases[x.e.rank]
	me.buffer = [2]span{{pointerBytes(r.input), r.inSize}, {pointerBytes(r.output), r.outSize}}
	for i := range r.blocks {
		r.blocks[i].reset(r, i, x.program.blocks[i])
	}
	h.remote.begin(r)
	return nil
}

// arrange places input and output.
func (r *run) arrange() error {
	h, x := r.h, r.h.x
	scalar, rewrite := x.reduction.before(&r.Args, x.e.size)
	rewrite = rewrite && r.owns[0]
	reach := func(p device.Ptr, n int64) bool { return h.local || x.e.buffers.Place(p, n, 0, true).Number != 0 }
	var err error
	if r.placement, err = x.arrange(&r.launch, rewrite, reach, h.staging); err != nil {
		return err
	}
	if r.owns[0] && r.moveIn {
		copy(device.Bytes(r.input, r.sizes[0]), device.Bytes(r.Send, r.sizes[0]))
	}
	if rewrite {
		if r.Op == datatype.PreMulSum && r.ScalarPtr != 0 {
			copy(scalar[:], device.Bytes(r.ScalarPtr, r.Type.Size()))
		}
		in := device.Bytes(r.input, r.sizes[0])
		return hostreduce.Scale(in, in, r.Type, scalar)
	}
	return nil
}

// work runs the thread blocks of one worker: step 3.
func (r *run) work(b *host.Block) error {
	h := r.h
	own := h.arenas[h.x.e.rank]
	w := &r.worker[b.Index]
	w.block = b
	for {
		left, moved := 0, false
		for i := b.Index; i < len(r.blocks); i += r.workers {
			bl := &r.blocks[i]
			if bl.done {
				continue
			}
			on, err := bl.advance(w)
			if err != nil {
				return err
			}
			moved = moved || on
			if !bl.done {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		if moved {
			// An abort also ends a launch that never has to wait.
			if b.Abort.Load() != 0 || h.x.e.aborted.Load() != 0 {
				return h.x.e.ended(wait.ErrAborted, "it ran")
			}
			continue
		}
		if err := wait.Until(own.door(), w.cond, r.limit, h.policy); err != nil {
			return r.stuck(b, err)
		}
		if b.Abort.Load() != 0 {
			return h.x.e.ended(wait.ErrAborted, "the device was closed")
		}
	}
}

// stuck returns the error of a wait that failed. It names the op and the peer, and reports whether the peer runs
// something else.
func (r *run) stuck(b *host.Block, err error) error {
	for i := b.Index; i < len(r.blocks); i += r.workers {
		bl := &r.blocks[i]
		if bl.done {
			continue
		}
		peer, where := bl.waiting()
		if peer >= 0 {
			if e := r.compare(peer); e != nil {
				return r.h.x.fail(r.Seq, peer, e)
			}
		}
		if cause := r.h.x.e.Err(); cause != nil && !errors.Is(err, wait.ErrTimeout) {
			if ae := fault.Of(cause); ae != nil {
				peer = ae.Peer
			}
		}
		return r.h.x.fail(r.Seq, peer, r.h.x.e.ended(err, where))
	}
	return r.h.x.e.ended(err, "it waited")
}

// finish is step 4.
func (r *run) finish() error {
	if r.owns[1] && r.moveOut {
		copy(device.Bytes(r.Recv, r.sizes[1]), device.Bytes(r.output, r.sizes[1]))
	}
	if r.Op == datatype.Avg && r.owns[1] && r.h.x.reduction.some {
		out := device.Bytes(r.Recv, r.sizes[1])
		if _, scaled := r.h.x.reduction.before(&r.Args, r.h.x.e.size); scaled {
			hostreduce.EndAverage(out, r.Type, r.h.x.e.size)
		} else if err := hostreduce.Reduce(out, [][]byte{out}, r.Type, datatype.Avg, [8]byte{}, r.h.x.e.size); err != nil {
			return err
		}
	}
	for _, p := range r.h.x.program.peer {
		if err := r.compare(p); err != nil {
			return r.h.x.fail(r.Seq, p, err)
		}
	}
	return nil
}

// compare checks a peer's record of the launch with the same number, if the peer's arena holds it.
func (r *run) compare(peer int) error {
	if r.h.x.e.otherHost(peer) {
		if r.h.remote.agrees(peer, r) {
			return nil
		}
	} else if rec := r.h.arenas[peer].launch(r.number); rec.number.Load() != r.number+1 ||
		rec.signature.Load() == signature(&r.Args) || rec.number.Load() != r.number+1 {
		return nil
	}
	return mismatch("rank %d executes the plan with another message size, type or operator", peer)
}

func signature(a *Args) uint64 {
	h := uint64(14695981039346656037)
	for _, v := range [...]uint64{a.Message, uint64(a.Type), uint64(a.Op)} {
		h = (h ^ v) * 1099511628211
		h ^= h >> 29
	}
	return h
}
