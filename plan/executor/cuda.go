package executor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/plan"
)

// A launch on a GPU:
//
//  1. order     after the plan's previous launch, or the communicator's previous operation
//  2. place     use the caller's buffers if they are in registered memory; otherwise use the staging region and copy to
//     it on the stream
//  3. fill      set addresses, sizes, and where this rank's buffers are; the epoch is in device memory, so that a
//     launch can be captured and replayed
//  4. launch    one CUDA block for each thread block of the plan
//  5. after     scale an average, copy staged output to the caller's buffer, mark the end
//
// Nothing here waits for the GPU or for a peer. Staging and scratch grow earlier, in Execute, and never while a stream
// is captured.

// cudaEngine runs a plan on a GPU.
type cudaEngine struct {
	x       *ExecutionPlan
	u       *gpu
	program *gpuProgram
	layout  gpuState
	control *arena
	scratch *arena
	staging *arena
	staged  int64
	halves  int64 // offset of output in the staging region
	retired []*arena

	private  device.Allocation // staging when peers touch neither input nor output
	outgrown []device.Allocation
	launcher *launcher.Launcher // its order is the plan's own, unless the executor or its rings have one
	args     *gpuArgs           // constant fields are set once; C reads it, so it holds no Go pointers
	quick    *gpuQuickArgs
	known    int // number of regions in the kernel's table

	couriers int           // thread blocks of a launch for what other hosts send: 0 without links to other hosts
	seq      atomic.Uint64 // of the latest launch
}

func newCUDAEngine(ctx context.Context, x *ExecutionPlan) (engine, error) {
	e := x.e
	if e.gpu == nil {
		u, err := openGPU(ctx, e)
		if err != nil {
			return nil, err
		}
		e.gpu = u
	}
	h := &cudaEngine{x: x, u: e.gpu, args: new(gpuArgs), quick: new(gpuQuickArgs)}
	if err := h.open(ctx); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *cudaEngine) open(ctx context.Context) error {
	x, dev := h.x, h.u.dev
	var err error
	h.program = x.encoded
	p := dev.Properties()
	if len(x.program.distant) > 0 {
		h.couriers = int(x.e.rings.wire.Rings().Lanes)
	}
	if most := p.SMs / h.u.sharing; h.program.blocks+h.couriers > most {
		return fmt.Errorf("%w: %d thread blocks, and %d for what comes from other hosts; the GPU runs %d at once",
			collective.ErrUnsupported, h.program.blocks, h.couriers, most)
	}
	g := &x.plan.GPUs[x.e.rank]
	h.layout = newGPUState(x.program, len(g.Semaphores), h.program)
	order := x.e.cfg.Order
	if h.couriers > 0 {
		order = x.e.rings.order
	}
	if h.launcher, err = launcher.New(dev, launcher.Config{State: h.layout.size, Ticket: -1, Order: order,
		Limit: x.e.cfg.OpTimeout}); err != nil {
		return err
	}
	start := make([]byte, h.layout.size)
	for i, s := range g.Semaphores {
		binary.LittleEndian.PutUint32(start[h.layout.semaphores+8*int64(i):], uint32(s.InitValue))
	}
	copy(start[h.layout.program:], h.program.bytes)
	if err := dev.CopyIn(h.launcher.State.Ptr(), start); err != nil {
		return err
	}
	if h.control, err = x.e.newArena(ctx, dev, gpuControlBytes+gpuInboundStride*int64(x.program.maxLinks)); err != nil {
		return err
	}
	h.bind()
	if x.e.rings != nil {
		x.e.rings.plans++
	}
	if h.couriers > 0 {
		h.args.far = uint64(h.launcher.State.Ptr()) + uint64(h.layout.far)
		far := x.e.rings.far(x.program, h.program.blocks, h.args.abort)
		if err := dev.CopyIn(device.Ptr(h.args.far), launcher.Raw(far)); err != nil {
			return err
		}
	}
	return h.learn()
}

// bind sets the arguments that no launch changes.
func (h *cudaEngine) bind() {
	x, a := h.x, h.args
	for r := range x.e.size {
		a.rank[r].control = uint64(h.control.Ptr[r])
	}
	s := uint64(h.launcher.State.Ptr())
	a.barriers, a.semaphores = s+uint64(h.layout.barriers), s+uint64(h.layout.semaphores)
	a.expected, a.peers, a.regions = s+uint64(h.layout.expected), s+uint64(h.layout.peers), s+uint64(h.layout.regions)
	a.program, a.abort = s+uint64(h.layout.program), uint64(h.launcher.Block())
	a.self, a.nranks, a.stride = uint32(x.e.rank), uint32(x.e.size), uint32(h.program.stride)
	a.shared = plain.Bit[uint32](h.program.stride <= gpuShared)
	a.publish = plain.Bit[uint32](x.program.touched != [2]bool{})
	a.shift = uint32(bits.TrailingZeros64(uint64(x.plan.Alignment)))
	h.quick.program, h.quick.abort, h.quick.self, h.quick.stride, h.quick.shift = a.program, a.abort, a.self, a.stride,
		a.shift
}

func (h *cudaEngine) launch(l *launch) error {
	s, ok := l.Stream.(*cuda.Stream)
	if !ok {
		return invalid("the stream is no stream of a CUDA device")
	}
	if h.couriers > 0 {
		if err := h.x.e.rings.begin(h.x, l.Seq, s); err != nil {
			return err
		}
		defer h.x.e.rings.wire.Launched()
	}
	if err := h.launcher.Order.Enter(s); err != nil {
		return err
	}
	return errors.Join(h.enqueue(l, s), h.launcher.Order.Leave(s)) // leave the order also when enqueue has failed half-way
}

// enqueue performs steps 2 to 5.
func (h *cudaEngine) enqueue(l *launch, s *cuda.Stream) error {
	x := h.x
	h.seq.Store(l.Seq)
	factor, scaled := x.reduction.before(&l.Args, x.e.size)
	rewrite := scaled && l.owns[0]
	p, err := h.place(l, rewrite)
	if err != nil {
		return err
	}
	if p.moveIn && p.input != l.Send {
		if err := s.Copy(p.input, l.Send, l.sizes[0]); err != nil {
			return err
		}
	}
	if rewrite {
		if err := h.rescale(s, p.input, l.sizes[0], l, factor, 0); err != nil {
			return err
		}
	}
	if err := h.publish(&p); err != nil {
		return err
	}
	h.fill(l, &p)
	if err := h.run(l, s); err != nil {
		return err
	}
	if l.Op == datatype.Avg && l.owns[1] && x.reduction.some {
		n := uint32(x.e.size)
		if scaled {
			n |= gpuScaled
		}
		if err := h.rescale(s, p.output, l.sizes[1], l, factor, n); err != nil {
			return err
		}
	}
	if p.moveOut && p.output != l.Recv {
		return s.Copy(l.Recv, p.output, l.sizes[1])
	}
	return nil
}

// place is step 2, without its copies.
func (h *cudaEngine) place(l *launch, rewrite bool) (p placement, err error) {
	reach := func(at device.Ptr, n int64) bool {
		_, _, ok := h.region(at, n)
		return ok
	}
	return h.x.arrange(l, rewrite, reach, func(k int, _ int64) (device.Ptr, error) {
		base, half, err := h.stagingOf(l)
		return base.Add(half * int64(k)), err
	})
}

// publish sets where peers find this rank's buffers: by region and offset.
func (h *cudaEngine) publish(p *placement) error {
	x, a := h.x, h.args
	for k, q := range [2]device.Ptr{p.input, p.output} {
		a.region[k], a.offset[k] = gpuRegions, 0 // none
		size := [2]int64{p.inSize, p.outSize}[k]
		if !x.program.touched[k] || size == 0 || q == 0 {
			continue
		}
		if h.staging != nil {
			if base := h.staging.Ptr[x.e.rank]; q >= base && q < base.Add(h.staged) {
				a.region[k], a.offset[k] = 0, uint64(q-base)
				continue
			}
		}
		r, off, ok := h.region(q, size)
		if !ok {
			return fmt.Errorf("%w: a buffer that peers touch is neither registered nor staged", collective.ErrInvalidUsage)
		}
		a.region[k], a.offset[k] = uint32(r), uint64(off)
	}
	return nil
}

// fill is the rest of step 3.
func (h *cudaEngine) fill(l *launch, p *placement) {
	a := h.args
	a.counts = uint64(l.Counts)
	a.buffer = [2]uint64{uint64(p.input), uint64(p.output)}
	a.block, a.chunk, a.period = uint64(l.layout.Block), uint64(l.layout.Chunk), uint32(l.layout.Period)
	a.linear = plain.Bit[uint32](l.layout.Even())
	a.op = uint32(l.Op)
	if l.Op > datatype.Min {
		a.op = uint32(datatype.Sum)
	}
	a.signature = signature32(&l.Args)
	for r := range h.x.e.size {
		a.rank[r].size = [2]uint64{uint64(l.layout.Size(r, plan.Input)), uint64(l.layout.Size(r, plan.Output))}
	}
	a.rank[h.x.e.rank].size = [2]uint64{uint64(p.inSize), uint64(p.outSize)}
}

// run is step 4, by the quick kernel where that takes the launch.
func (h *cudaEngine) run(l *launch, s *cuda.Stream) error {
	a, blocks := h.args, h.program.blocks+h.couriers
	if blocks == 0 {
		return nil
	}
	cfg := cuda.Launch1D(blocks, h.threads(l), 0)
	if a.shared != 0 {
		cfg.Shared = a.stride
	}
	quick := h.program.quick && h.couriers == 0 && a.linear != 0 && a.op == uint32(datatype.Sum) &&
		(a.buffer[0]|a.buffer[1]|a.chunk|1<<a.shift)&7 == 0 && int64(h.program.chunks)*l.layout.Chunk <= 1<<32
	if l.Type.Unsigned() {
		a.op |= gpuUnsigned
	}
	a.bulk = 0
	if !quick && h.u.bulk && int64(h.program.copies)*l.layout.Chunk >= gpuBulkBytes {
		a.bulk = max(128, (cfg.Shared+127)&^127)
		cfg.Shared = a.bulk + gpuBulk
	}
	f, params := h.u.execute[l.Type], launcher.Raw(a)
	if quick {
		q := h.quick
		q.buffer, q.size, q.chunk = a.buffer, a.rank[h.x.e.rank].size, a.chunk
		f, params = h.u.quick[l.Type], launcher.Raw(q)
	}
	return s.LaunchRaw(f, &cfg, params)
}

// threads returns the block size: a thread for each vector of the largest operand, up to the plan's limit.
func (h *cudaEngine) threads(l *launch) int {
	unit := int64(16)
	if h.x.plan.Protocol == plan.LL {
		unit = 8
	}
	need := (int64(h.program.chunks)*l.layout.Chunk + unit - 1) / unit
	most := int64(min(h.x.plan.ThreadsPerBlock, gpuThreads))
	return int(max(32, min((need+31)&^31, most)))
}

// gpuScaled says that the terms of the sums that rescale divides were scaled before.
const gpuScaled = 1 << 31

// rescale divides by n. If n is 0, it multiplies by factor, or by what the launch points to.
func (h *cudaEngine) rescale(s *cuda.Stream, p device.Ptr, bytes int64, l *launch, factor [8]byte, n uint32) error {
	var args cuda.Args
	at := l.ScalarPtr
	if l.Op != datatype.PreMulSum {
		at = 0
	}
	args.Ptr(p).Ptr(p).Uint64(uint64(bytes)).Uint64(binary.LittleEndian.Uint64(factor[:])).Ptr(at).Uint32(n)
	blocks := int(max(1, min(64, (bytes/16+gpuThreads-1)/gpuThreads)))
	return s.Launch(h.u.scale[l.Type], cuda.Launch1D(blocks, gpuThreads, 0), &args)
}

func signature32(a *Args) uint32 {
	v := signature(a)
	return uint32(v ^ v>>32)
}

// report returns the error of a wait that timed out on the GPU, or of an access that the kernel rejected.
func (h *cudaEngine) report(status uint32, words *abort.Block) error {
	detail, peer := words.Detail.Load(), words.PeerRank()
	where := "in the plan"
	if b, pc := int(detail>>32), int(uint32(detail)); b < len(h.program.where) && pc < len(h.program.where[b]) {
		in := h.program.where[b][pc]
		where = fmt.Sprintf("at %v (%s)", in.pos, in.op.Name)
		if words.Op.Load() == abort.WaitPacket && len(in.moves) > 0 {
			srcs := in.moves[0].Src
			peer = writer(h.x.plan, srcs[min(max(0, peer), len(srcs)-1)])
		}
	}
	seq := h.seq.Load()
	if status == abort.Invalid {
		if peer >= 0 {
			return h.x.fail(seq, peer, mismatch("rank %d executes the plan with another message size, type or operator (%s)",
				peer, where))
		}
		return h.x.fail(seq, -1, invalid("an access outside of the buffers %s", where))
	}
	if peer == h.x.e.rank {
		peer, where = -1, "for its caller "+where
	}
	if far := h.x.e.across(peer); far != "" {
		where = fmt.Sprintf("for rank %d%s %s", peer, far, where)
	}
	return h.x.fail(seq, peer, fmt.Errorf("%w: after %v still waiting %s", collective.ErrTimeout, h.x.e.cfg.OpTimeout,
		where))
}

func (h *cudaEngine) counter(link int) device.Ptr {
	return h.control.Ptr[h.x.e.rank].Add(gpuControlBytes + gpuInboundStride*int64(link))
}

func (h *cudaEngine) wake() { h.launcher.Raise() }

func (h *cudaEngine) close() error {
	if err := h.launcher.Quiesce(); err != nil {
		return err
	}
	return errors.Join(device.CloseAll(append(h.retired, h.scratch, h.staging, h.control)...),
		device.CloseAll(append(h.outgrown, h.private)...), h.launcher.Free())
}
