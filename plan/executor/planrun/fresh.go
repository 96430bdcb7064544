package planrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/plan/executor"
)

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
		if err := b.write(b.recv, bytes.Repeat([]byte{poison}, int(b.out))); err != nil {
			return err
		}
	}
	if b.hasInput {
		return b.write(b.send, data.whole(rank, b.in))
	}
	return nil
}
