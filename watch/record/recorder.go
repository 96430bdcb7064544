package record

import (
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/fault"
)

// Meta describes a communicator of this rank.
type Meta struct {
	Name       string   `json:"name,omitempty"`
	Device     string   `json:"device"`
	Engine     string   `json:"engine"`
	Algorithms []string `json:"algorithms,omitempty"` // by index, for Recorder.Algorithm
	Ranks      []int    `json:"ranks,omitempty"`      // the job's numbers of the ranks, if they are others
	ID         uint64   `json:"-"`
	Rank, Size int      `json:"-"`
}

// Options say how to record.
type Options struct {
	Entries int    // of each ring, rounded up to a power of two; 0: no records
	Folder  string // for a file that remains after a crash; "": none
	Signal  string // at which the process writes its records; "": none
}

// Recorder records the operations of one communicator.
type Recorder struct {
	r     *region
	mask  uint64
	index int // of the region
	meta  Meta
	pace

	// Set by Serve, before the first request.
	stamps     bool   // the engine does not record the start and end of its work on the host device
	unseenWork bool   // the engine works on a GPU
	marker     marker // nil: the engine's progress is not known

	verdict atomic.Pointer[fault.Verdict]

	mu     sync.Mutex // guards the fields below
	closed bool
	watch  watch
}

var own memoryFile

// Open starts the records of a communicator. It returns nil if they are off or have no memory, which it logs once.
func Open(m Meta, o Options) *Recorder {
	if o.Entries <= 0 {
		return nil
	}
	n := 16
	for n < min(o.Entries, mostEntries) {
		n *= 2
	}
	r, index, err := own.take(n, o.Folder)
	if err != nil {
		own.failed.Do(func() { slog.Warn("operations are not recorded", "err", err, "mend", "see GOCCL_RECORD_DIR") })
		return nil
	}
	x := &Recorder{r: r, mask: uint64(len(r.rings[0].entries) - 1), index: index, meta: m}
	if !x.writeMeta(m) {
		m.Ranks = nil
		x.writeMeta(m)
	}
	r.rank, r.size, r.id = int32(m.Rank), int32(m.Size), m.ID
	r.state.Store(regionOpen)
	register(x, o)
	return x
}

// kind is the collective that a request counts as: the one that it is a part of, or else its collective.
func kind(q *collective.Request) collective.Collective {
	k := q.PartOf // cmp.Or is a call that is not inlined
	if k == 0 {
		k = q.Collective
	}
	return k % mostKinds
}

// Enqueued writes the entry of an operation that is about to be enqueued.
func (x *Recorder) Enqueued(number uint64, q *collective.Request) {
	if x == nil {
		return
	}
	message, k := q.PointToPoint(), kind(q)
	e := &x.r.ring(message).entries[number&x.mask]
	publish(&e.number, 0)
	other := int32(q.Root)
	if message {
		other = int32(q.Peer)
	}
	e.count = uint64(q.Count)
	for _, n := range q.SendCounts {
		e.count += uint64(n)
	}
	e.what = uint64(k) | uint64(q.Type)<<8 | uint64(q.Op)<<16 | uint64(uint32(other))<<32
	e.stream, e.enqueued, e.mark = uint64(q.Stream.Raw()), x.stamp(number), 0
	t := &x.r.totals[k]
	t.operations++
	t.bytes += e.count * uint64(q.Type.Size())
	if message {
		x.r.messages = number
	} else {
		x.r.collectives = number
	}
	publish(&e.number, number)
}

// Started stamps the start of n operations that run together, from number on. The first is q.
func (x *Recorder) Started(q *collective.Request, number uint64, n int) {
	if x == nil {
		return
	}
	x.ran(q, number, n, run{started: x.stamp(number)})
}

// ran stores the times and flags of n operations.
func (x *Recorder) ran(q *collective.Request, number uint64, n int, as run) {
	runs := x.r.ring(q.PointToPoint()).runs
	for i := range uint64(n) {
		e := &runs[(number+i)&x.mask]
		e.started, e.ended, e.flags = as.started, as.ended, as.flags
		publish(&e.number, number+i)
	}
}

// Ended stamps the end of n operations. Their time counts for the collective of the first, q.
func (x *Recorder) Ended(q *collective.Request, number uint64, n int, err error) {
	if x == nil {
		return
	}
	runs, t := x.r.ring(q.PointToPoint()).runs, uint64(untimed)
	for i := range uint64(n) {
		e := &runs[(number+i)&x.mask]
		ran := e.number == number+i
		if i == 0 && (!ran || e.started != untimed || err != nil) {
			if t = ticks(); ran && e.started != untimed {
				x.r.spent[kind(q)] += x.weighed(number, t-e.started)
			}
		}
		if !ran { // it was never started
			e.started, e.ended, e.flags = t, 0, 0
			publish(&e.number, number+i)
		}
		if err != nil {
			e.flags |= flagFailed
		}
		e.ended = t
	}
}

// Marked stores the mark, behind n operations, that the GPU's progress is compared with (Watch.Passed). Operations that
// were captured into a graph do not run now, and nobody sees when the graph does. The caller of Enqueued calls it, so
// the entries are in its cache.
func (x *Recorder) Marked(q *collective.Request, number uint64, n int, mark uint64, captured bool) {
	if x == nil {
		return
	}
	entries := x.r.ring(q.PointToPoint()).entries
	for i := range uint64(n) {
		entries[(number+i)&x.mask].mark = mark + 1
	}
	if !captured {
		return
	}
	x.ran(q, number, n, run{ended: x.stamp(number), flags: flagSampled | flagCaptured})
	if !q.PointToPoint() {
		x.r.captured += uint64(n)
	}
}

// Unseen is for operations of which nobody sees when they run, such as plans on GPUs. They count as ended, so that no
// verdict is sought on them.
func (x *Recorder) Unseen(q *collective.Request, number uint64, n int) {
	if x != nil {
		x.ran(q, number, n, run{ended: x.stamp(number), flags: flagSampled})
	}
}

// sample stamps the end of operations that have ended on the GPU. An operation with the mark of its predecessor has no
// kernel, so its end is known only when all has ended or a later kernel has. The caller holds mu.
func (x *Recorder) sample(message bool, from uint64, passed uint64, all bool) {
	last, t := x.r.latest(message), ticks()
	ring := x.r.ring(message)
	for number := max(from, last-min(last, x.mask), 1); number <= last; number++ {
		e := &ring.runs[number&x.mask]
		if e.number == number && e.ended != 0 {
			continue
		}
		mark := ring.marked(number)
		if mark == 0 || mark > passed+1 || mark == passed+1 && mark == ring.marked(number-1) && !all {
			return
		}
		e.number = 0
		e.started, e.ended, e.flags = 0, t, flagSampled
		publish(&e.number, number)
	}
}

// Algorithm records which of Meta.Algorithms runs an operation that has started.
func (x *Recorder) Algorithm(message bool, number uint64, index int) {
	if x == nil || index < 0 || index > 254 {
		return
	}
	if e := &x.r.ring(message).runs[number&x.mask]; e.number == number {
		e.flags = e.flags&^0xff | uint64(index+1)
	}
}

// The engines that the judge tells apart. The work of goccl's engines on GPUs is sampled. NCCL's starts and ends are
// known if NCCL reports events of kernels; otherwise only its calls are.
const (
	EngineOnGPU         = "nvlink"
	EngineOfHosts       = "hosts"
	EngineOfHostsOnGPUs = "hosts on GPUs"
	EngineNCCL          = "nccl"
	EngineNCCLCalls     = "nccl, calls alone"
	EngineTorch         = "torch" // dumps of PyTorch without starts
)

// writeMeta reports whether there was room for m. The caller holds mu.
func (x *Recorder) writeMeta(m Meta) bool {
	text, _ := json.Marshal(m)
	if len(text) >= metaBytes || x.closed {
		return false
	}
	put(x.r.mem[metaAt:entriesAt], text)
	x.meta = m
	return true
}

// Index returns the number of an algorithm for Algorithm, and assigns one if it has none; -1 if there are too many.
func (x *Recorder) Index(name string) int {
	if x == nil {
		return -1
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.Index(x.meta.Algorithms, name)
	if i >= 0 || x.closed || len(x.meta.Algorithms) >= 255 {
		return i
	}
	m := x.meta
	m.Algorithms = append(m.Algorithms, name)
	if !x.writeMeta(m) {
		return -1
	}
	return len(m.Algorithms) - 1
}

// Close ends the records. With failure a file in a folder keeps them.
func (x *Recorder) Close(failure bool) {
	if x == nil {
		return
	}
	unregister(x)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	x.closed = true
	if failure {
		x.r.state.Store(regionFailed)
	}
	own.give(x.r, x.index, failure)
}

// marker is an engine whose work is not seen to start and end, although its progress is.
type marker interface {
	RecordMark() (mark uint64, captured bool)
	RecordPassed() (mark uint64, all, ok bool)
}

// Serve names the engine of the communicator, and says who stamps its work: the engine itself; on a GPU nobody, where
// an engine with marks is sampled; else Submit and Stamped.
func (x *Recorder) Serve(e collective.Engine, name string, itself, gpu bool) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.meta.Engine = name
	x.writeMeta(x.meta)
	x.stamps, x.unseenWork = !itself && !gpu, gpu
	if gpu {
		x.marker, _ = e.(marker)
	}
}

// Stamps reports whether the caller passes requests to Submit or Stamped, which stamp them.
func (x *Recorder) Stamps() bool { return x != nil && x.stamps }

// Passed returns Watch.Passed; nil if the engine is not sampled.
func (x *Recorder) Passed() func() (mark uint64, all, ok bool) {
	if x.marker == nil {
		return nil
	}
	return x.marker.RecordPassed
}

// Calls records requests that are about to be enqueued.
func (x *Recorder) Calls(seq uint64, reqs []collective.Request) {
	if x == nil {
		return
	}
	for i := range reqs {
		x.Enqueued(seq+uint64(i), &reqs[i])
	}
}

// Passes records requests that the engine has enqueued, if err is nil. It returns err.
func (x *Recorder) Passes(seq uint64, reqs []collective.Request, err error) error {
	switch {
	case err != nil || x == nil:
	case x.marker != nil:
		mark, captured := x.marker.RecordMark()
		x.Marked(&reqs[0], seq, len(reqs), mark, captured)
	case x.unseenWork:
		x.Unseen(&reqs[0], seq, len(reqs))
	}
	return err
}

// Submit passes requests to the engine, with stamps around them where it needs those.
func (x *Recorder) Submit(e collective.Engine, seq uint64, reqs []collective.Request) error {
	if !x.Stamps() {
		return x.Passes(seq, reqs, e.Enqueue(seq, reqs))
	}
	return collective.Batches(seq, reqs, func(seq uint64, batch []collective.Request) error {
		return x.Stamped(seq, batch, func() error { return e.Enqueue(seq, batch) })
	})
}

// Stamped enqueues requests that run together, on a host stream with stamps of their start and end around them.
func (x *Recorder) Stamped(seq uint64, batch []collective.Request, enqueue func() error) error {
	if x == nil {
		return enqueue()
	}
	s, ok := batch[0].Stream.(*host.Stream)
	if !ok {
		err := enqueue()
		if err == nil {
			x.Unseen(&batch[0], seq, len(batch))
		}
		return err
	}
	// The caller may reuse batch.
	first, n := collective.Request{Collective: batch[0].Collective, PartOf: batch[0].PartOf}, len(batch)
	stamp := func(f func()) error {
		return s.Launch("record", 1, func(*host.Block) error {
			f()
			return nil
		})
	}
	if err := stamp(func() { x.Started(&first, seq, n) }); err != nil {
		return err
	}
	if err := enqueue(); err != nil {
		return err
	}
	return stamp(func() { x.Ended(&first, seq, n, nil) })
}
