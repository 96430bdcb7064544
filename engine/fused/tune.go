package fused

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// table is the fastest algorithm by the number of bits of a request's size; "": it was not measured.
type table [64]string

func (t *table) choose(r *Request) string { return cmp.Or(t[bits.Len64(uint64(r.Bytes()))], Apart) }

// Shape is what Tune measures.
type Shape struct {
	Tokens, Hidden int64 // the most rows
	Type           datatype.Type
}

const (
	tuneWarmups = 3
	tuneRounds  = 20
)

// Tune measures requests with residual and norm of 1, 2, 4, … rows and keeps the fastest algorithm of each size, for
// requests that name none. It is collective: the slowest rank's time counts, and all ranks choose the same algorithms.
// enqueue is the communicator's path of a request. On the host device, and where ranks do not reach each other's
// memory, there is one algorithm.
func (w *Workspace) Tune(ctx context.Context, shape Shape, enqueue func(*Request) error) error {
	r := Request{Tokens: shape.Tokens, Hidden: shape.Hidden, Type: shape.Type, Input: 16, Norm: 16}
	if err := r.Validate(); err != nil {
		return err
	}
	if w.gpu == nil || !w.gpu.takes(&r, w.cfg) {
		return nil
	}
	memory, err := w.comm.Device.Alloc(3*r.Bytes() + r.RowBytes())
	if err != nil {
		return err
	}
	s, err := w.comm.Device.NewStream()
	if err != nil {
		return errors.Join(err, memory.Close())
	}
	at := func(i int64) device.Ptr { return memory.Ptr().Add(i * r.Bytes()) }
	r.Stream, r.Input, r.Residual, r.Norm, r.Weight, r.Epsilon = s, at(0), at(1), at(2), at(3), 1e-6
	r.ResidualOut = r.Residual
	for r.Tokens = 1; err == nil; r.Tokens = min(2*r.Tokens, shape.Tokens) {
		err = w.tuneSize(ctx, &r, enqueue)
		if r.Tokens == shape.Tokens {
			break
		}
	}
	return errors.Join(err, s.Close(), memory.Close())
}

// tuneSize measures the algorithms for one size.
func (w *Workspace) tuneSize(ctx context.Context, r *Request, enqueue func(*Request) error) error {
	names := []string{Apart, OneShot, TwoShot} // of equal times the first
	var mine []byte
	for _, name := range names {
		r.Algorithm = name
		seconds, err := w.measure(ctx, r, enqueue)
		if err != nil {
			return err
		}
		mine = binary.LittleEndian.AppendUint64(mine, math.Float64bits(seconds))
	}
	all, err := w.comm.Bootstrap.AllGather(ctx, mine)
	if err != nil {
		return err
	}
	best, least := "", math.Inf(1)
	for i, name := range names {
		slowest := 0.0
		for _, b := range all {
			if len(b) != len(mine) {
				return bad("a rank measured other algorithms")
			}
			slowest = max(slowest, math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
		}
		if slowest < least {
			best, least = name, slowest
		}
	}
	w.tuned[bits.Len64(uint64(r.Bytes()))] = best
	return nil
}

// measure is the time of a request, in seconds: in a graph, as engines of inference run it, if one can be captured.
// Launched one by one, small requests take as long as the processor needs for their launches.
func (w *Workspace) measure(ctx context.Context, r *Request, enqueue func(*Request) error) (float64, error) {
	rounds := func(n int) error {
		for range n {
			if err := enqueue(r); err != nil {
				return err
			}
		}
		return nil
	}
	if err := rounds(tuneWarmups); err != nil {
		return 0, err
	}
	run := func() error { return rounds(tuneRounds) }
	if s, ok := r.Stream.(*cuda.Stream); ok {
		if graph, err := s.Capture(run); err == nil {
			defer func() { _ = graph.Close() }()
			run = func() error { return graph.Launch(s) }
			if err := run(); err != nil {
				return 0, err
			}
		}
	}
	total, err := device.Timed(r.Stream, run, func() error { return r.Stream.Synchronize(ctx) })
	return total / tuneRounds, err
}
