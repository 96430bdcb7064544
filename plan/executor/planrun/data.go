package planrun

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
)

// pieceElements is how many elements are compared at a time.
const pieceElements = 16 << 10

// inputs holds the inputs of all ranks: hostreduce.Fill's data. The data repeat, so only a period plus a piece is kept
// for each rank, whatever the size.
type inputs struct {
	t     datatype.Type
	ranks [][]byte
}

func newInputs(p *plan.Plan, l *plan.Layout, c Case) *inputs {
	in := &inputs{t: c.Type, ranks: make([][]byte, len(p.GPUs))}
	largest := int64(0)
	for r := range in.ranks {
		largest = max(largest, l.Size(r, plan.Input))
	}
	for r := range in.ranks {
		in.ranks[r] = fill(c.Type, c.Seed, r, min(largest, (hostreduce.Period+pieceElements)*c.Type.Size()))
	}
	return in
}

// filled caches data of earlier cases: generating data takes longer than most plans take to run. The data are never
// changed.
var filled struct {
	sync.Mutex
	by map[fillKey][]byte
}

type fillKey struct {
	t    datatype.Type
	seed uint64
	rank int
}

const maxFilled = 64 // entries, each of at most 640 KiB

func fill(t datatype.Type, seed uint64, rank int, n int64) []byte {
	key := fillKey{t, seed, rank}
	filled.Lock()
	b := filled.by[key]
	filled.Unlock()
	if int64(len(b)) >= n {
		return b[:n]
	}
	b = make([]byte, n)
	hostreduce.Fill(b, t, seed, rank)
	filled.Lock()
	defer filled.Unlock()
	if len(filled.by) >= maxFilled || filled.by == nil {
		filled.by = map[fillKey][]byte{}
	}
	filled.by[key] = b
	return b
}

// piece returns how many of n bytes at can return at once.
func (in *inputs) piece(n int64) int64 { return min(n, pieceElements*in.t.Size()) }

// at returns n bytes, at most a piece, of a rank's input from byte off, which must be the start of an element.
func (in *inputs) at(rank int, off, n int64) []byte {
	off %= hostreduce.Period * in.t.Size()
	return in.ranks[rank][off : off+n]
}

// fresh runs rounds of two back-to-back executions with separate buffers. Each round has new data and begins with junk
// in scratch, so that data left by an earlier execution never equals what a later one must write.
func fresh(ctx context.Context, x *executor.ExecutionPlan, rank int, dev device.Device, s device.Stream,
	c Case, user *caller) (err error) {
	if c.Fresh == 0 {
		return nil
	}
	p := x.Plan()
	l, err := p.NewLayout(c.Message)
	if err != nil {
		return err
	}
	var both [2]*buffers
	for k := range both {
		b, err := newBuffers(p, l, rank, dev, c)
		if err != nil {
			return err
		}
		both[k] = b
		defer func() { err = errors.Join(err, b.close()) }()
	}
	for round := range c.Fresh {
		var data [2]*inputs
		for k, b := range both {
			of := c
			of.Seed += uint64(2*round+k+1) << 32
			data[k] = newInputs(p, l, of)
			if err := b.fill(rank, data[k]); err != nil {
				return err
			}
		}
		if err := x.Poison(ctx, c.Message, poison); err != nil {
			return err
		}
		for k, b := range both {
			a := executor.Args{Send: b.send, Recv: b.recv, Message: c.Message, Type: c.Type, Op: c.Op, Scalar: factor(c.Type),
				Stream: s, Seq: uint64(2*round + k + 1)}
			if err := errors.Join(x.Execute(ctx, a), user.launches(1)); err != nil {
				return err
			}
		}
		if err := s.Synchronize(ctx); err != nil {
			return err
		}
		for k, b := range both {
			if err := b.check(p, l, rank, data[k], c); err != nil {
				return fmt.Errorf("execution %d, on fresh data: %w", 2*round+k+1, err)
			}
		}
		runtime.KeepAlive(both)
	}
	return nil
}

// fill writes the input, and junk to the output.
func (b *buffers) fill(rank int, data *inputs) error {
	if b.hasOutput {
		if err := device.Fill(b.dev, b.recv, poison, b.out); err != nil {
			return err
		}
	}
	return b.fillInput(rank, data)
}

func (b *buffers) fillInput(rank int, data *inputs) error {
	for at, n := int64(0), int64(0); b.hasInput && at < b.in; at += n {
		n = data.piece(b.in - at)
		if err := b.dev.CopyIn(b.send.Add(at), data.at(rank, at, n)); err != nil {
			return err
		}
	}
	return nil
}

// caller raises the input hooks of a plan, as the caller's kernels would.
type caller struct {
	x     *executor.ExecutionPlan
	s     device.Stream
	hooks []int
	total uint64 // launches so far, in the life of the plan
}

// newCaller returns nil for a plan without hooks on the rank.
func newCaller(x *executor.ExecutionPlan, rank int, dev device.Device) (*caller, error) {
	hooks := x.Plan().GPUs[rank].Hooks()
	if len(hooks) == 0 {
		return nil, nil
	}
	s, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	c := &caller{x: x, s: s}
	for id := range hooks {
		if hooks[id].Takes() {
			c.hooks = append(c.hooks, id)
		}
	}
	if len(c.hooks) > 0 { // no launch runs now, so all that was raised has been taken
		at, err := x.Hook(c.hooks[0])
		word := make([]byte, 8)
		if err == nil {
			err = dev.CopyOut(word, at)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		c.total = binary.NativeEndian.Uint64(word)
	}
	return c, nil
}

// launches says that the input of n more launches is there.
func (c *caller) launches(n int) error {
	if c == nil {
		return nil
	}
	c.total += uint64(n)
	var errs []error
	for _, id := range c.hooks {
		errs = append(errs, c.x.RaiseHook(c.s, id, c.total))
	}
	return errors.Join(errs...)
}

func (c *caller) close() error {
	if c == nil {
		return nil
	}
	return c.s.Close()
}
