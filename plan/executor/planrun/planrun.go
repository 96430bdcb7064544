// Package planrun executes a loaded plan on known data and checks every byte of the result. Tests of the executor and
// `goccl plan run` use it.
//
// All ranks run a Case, each by calling Rank with its own plan. Ranks share no state, and no state outlives the call.
package planrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
)

// Case is one execution, or several on the same data. All ranks use the same Case.
type Case struct {
	Message uint64 // bytes, as in plan.Plan.MinSize
	Type    datatype.Type
	Op      datatype.Op // used where the plan leaves the operator to the caller
	InPlace bool        // input and output are in one memory, as in NCCL's in-place calls
	Shift   int64       // elements by which buffers are shifted from their natural alignment
	Seed    uint64
	Times   int // timed executions on the same data; 0 means 1. In place, only 1 makes sense
	// untimed rounds before them, each on new data and with junk in scratch: all ranks at once, one plan at a
	// time
	Fresh int
	Heap  bool // host device: buffers from the Go heap, which other processes cannot map

	// Replays, on a GPU, captures the second and later executions in a graph and launches the graph Replays times.
	Replays int
	// Prepare, when not nil, is called with the buffers before the first execution.
	Prepare func(ctx context.Context, send, recv device.Ptr) error
}

// String returns the name of the case.
func (c Case) String() string {
	s := fmt.Sprintf("%d/%v/%v", c.Message, c.Type, c.Op)
	if c.InPlace {
		s += "/in-place"
	}
	if c.Shift != 0 {
		s += fmt.Sprintf("/shift%d", c.Shift)
	}
	return s
}

const (
	guard  = 256
	poison = 0xA5
)

// factor returns PreMulSum's scalar.
func factor(t datatype.Type) [8]byte {
	if t < datatype.Float16 {
		return hostreduce.ScalarOf(t, 3)
	}
	return hostreduce.ScalarOf(t, 0.5)
}

// Operator returns the operator that the plan's reductions use when the caller asks for op.
func Operator(p *plan.Plan, op datatype.Op) datatype.Op {
	fixed, _ := p.Operator()
	return fixed.Or(op)
}

// Rank runs the case on one rank. It returns the time of one execution and the first error. With several executions,
// the time is the median over batches of the second and later ones.
func Rank(ctx context.Context, x *executor.ExecutionPlan, rank int, dev device.Device, c Case) (took time.Duration,
	err error) {
	p := x.Plan()
	l, err := p.NewLayout(c.Message)
	if err != nil {
		return 0, err
	}
	b, err := newBuffers(p, l, rank, dev, c)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	s, err := dev.NewStream()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	user, err := newCaller(x, rank, dev)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, user.close()) }()
	if err := fresh(ctx, x, rank, dev, s, c, user); err != nil {
		return 0, err
	}
	inputs := newInputs(p, l, c)
	if err := b.fillInput(rank, inputs); err != nil {
		return 0, err
	}
	args := executor.Args{Send: b.send, Recv: b.recv, Message: c.Message, Type: c.Type, Op: c.Op, Scalar: factor(c.Type),
		Stream: s}
	if c.Prepare != nil {
		if err := c.Prepare(ctx, b.send, b.recv); err != nil {
			return 0, err
		}
	}
	if took, err = timed(ctx, x, args, s, c, user); err != nil {
		return 0, err
	}
	runtime.KeepAlive(b)
	return took, b.check(p, l, rank, inputs, c)
}

// timed runs the executions of a case, and returns the time of one.
func timed(ctx context.Context, x *executor.ExecutionPlan, args executor.Args, s device.Stream, c Case,
	user *caller) (time.Duration, error) {
	times := max(1, c.Times)
	start := time.Now()
	var batches []time.Duration // time of one execution in each batch
	ends, first := batchEnds(times), 0
	for i := range times {
		if i == 1 && c.Replays > 0 {
			if err := user.launches((times - 1) * c.Replays); err != nil {
				return 0, err
			}
			return replay(ctx, x, args, s, times-1, c.Replays)
		}
		args.Seq = uint64(i) + 1
		if err := errors.Join(x.Execute(ctx, args), user.launches(1)); err != nil {
			return 0, err
		}
		if slices.Contains(ends, i) {
			if err := s.Synchronize(ctx); err != nil {
				return 0, err
			}
			now := time.Now()
			if i > 0 || times == 1 {
				batches = append(batches, now.Sub(start)/time.Duration(i+1-first))
			}
			start, first = now, i+1
		}
	}
	slices.Sort(batches)
	return batches[len(batches)/2], nil
}

// batchEnds returns the executions after which Rank synchronizes the stream: the first, which also publishes buffers to
// peers, and the last of each of up to 9 batches.
func batchEnds(times int) []int {
	ends := []int{0}
	rest := times - 1
	n := min(9, max(1, rest/20))
	for i := 1; i <= n && rest > 0; i++ {
		ends = append(ends, rest*i/n)
	}
	return ends
}

// replay captures n executions and launches the graph replays times. It returns the time of one execution.
func replay(ctx context.Context, x *executor.ExecutionPlan, args executor.Args, s device.Stream,
	n, replays int) (took time.Duration, err error) {
	cs, ok := s.(*cuda.Stream)
	if !ok {
		return 0, fmt.Errorf("a graph needs a GPU, not %v", s.Device().ID())
	}
	exec, err := cs.Capture(func() error {
		for range n {
			if err := x.Execute(ctx, args); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, exec.Close()) }()
	seconds, err := device.Timed(s, func() error {
		for range replays {
			if err := exec.Launch(cs); err != nil {
				return err
			}
		}
		return nil
	}, func() error { return s.Synchronize(ctx) })
	return time.Duration(seconds*1e9) / time.Duration(n*replays), err
}

// buffers holds a rank's input and output, with guards around them.
type buffers struct {
	dev        device.Device
	mem        []device.Allocation
	heap       [][]byte
	send, recv device.Ptr
	in, out    int64
	hasInput   bool
	hasOutput  bool
}

func newBuffers(p *plan.Plan, l *plan.Layout, rank int, dev device.Device, c Case) (*buffers, error) {
	b := &buffers{dev: dev, in: l.Size(rank, plan.Input), out: l.Size(rank, plan.Output)}
	b.hasInput = b.in > 0 && (p.Collective != plan.Broadcast || rank == p.Root)
	b.hasOutput = b.out > 0
	shift := c.Shift * c.Type.Size()
	var err error
	if c.InPlace {
		var all device.Ptr
		all, err = b.alloc(max(b.in, b.out), shift, c.Heap)
		in, out := l.Together(rank)
		b.send, b.recv = all.Add(in), all.Add(out)
	} else {
		if b.hasInput {
			b.send, err = b.alloc(b.in, shift, c.Heap)
		}
		if err == nil && b.hasOutput {
			b.recv, err = b.alloc(b.out, shift, c.Heap)
		}
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *buffers) alloc(n, shift int64, heap bool) (device.Ptr, error) {
	total := n + 2*guard + shift
	if heap {
		fill := bytes.Repeat([]byte{poison}, int(total))
		b.heap = append(b.heap, fill)
		base := uintptr(unsafe.Pointer(&fill[0]))
		return device.Ptr(base).Add((16-int64(base%16))%16 + guard/2 + shift), nil
	}
	m, err := b.dev.Alloc(total)
	if err != nil {
		return 0, err
	}
	b.mem = append(b.mem, m)
	return m.Ptr().Add(guard + shift), device.Fill(b.dev, m.Ptr(), poison, total)
}

func (b *buffers) read(p device.Ptr, n int64) ([]byte, error) {
	out := make([]byte, n)
	if n == 0 {
		return out, nil
	}
	return out, b.dev.CopyOut(out, p)
}

// check compares the output, and out of place also the input and the guards, with their expected values.
func (b *buffers) check(p *plan.Plan, l *plan.Layout, rank int, inputs *inputs, c Case) error {
	if b.hasOutput {
		got, err := b.read(b.recv, b.out)
		if err != nil {
			return err
		}
		if p.Collective == plan.Reduce && rank != p.Root && !c.InPlace &&
			bytes.Count(got, []byte{poison}) != len(got) {
			return fmt.Errorf("rank %d: output was written, on a rank that is not the root", rank)
		}
		d := Definition{Type: c.Type, Op: Operator(p, c.Op), Scalar: factor(c.Type),
			Piece: inputs.piece(math.MaxInt64), Input: inputs.at}
		if err := d.Check(p, l, rank, got); err != nil {
			return err
		}
	}
	if c.InPlace {
		return nil
	}
	if b.hasInput {
		for at, n := int64(0), int64(0); at < b.in; at += n {
			n = inputs.piece(b.in - at)
			got, err := b.read(b.send.Add(at), n)
			if err != nil {
				return err
			}
			if !bytes.Equal(got, inputs.at(rank, at, n)) {
				return fmt.Errorf("rank %d: the input was changed", rank)
			}
		}
		if err := b.guards(b.send, b.in, rank); err != nil {
			return err
		}
	}
	if b.hasOutput {
		return b.guards(b.recv, b.out, rank)
	}
	return nil
}

func (b *buffers) guards(p device.Ptr, n int64, rank int) error {
	for _, at := range []device.Ptr{p.Add(-guard / 2), p.Add(n)} {
		edge, err := b.read(at, guard/2)
		if err != nil {
			return err
		}
		if bytes.Count(edge, []byte{poison}) != len(edge) {
			return fmt.Errorf("rank %d: memory next to a buffer was written (at %#x)", rank, at)
		}
	}
	return nil
}

func (b *buffers) close() error {
	err := device.CloseAll(b.mem...)
	b.mem, b.heap = nil, nil
	return err
}
