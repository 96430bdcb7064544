package perf

import (
	"context"
	"errors"
	"math"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/fused"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/job/bootstrap"
)

// lamportTuned is the all-reduce by packets without flags of the engine that is tuned; nil: there is none.
type lamportTuned struct{ *fused.Lamport }

// lamportOf gives it to the engine, where GPUs reach each other's memory. The returned function frees its memory.
func lamportOf(ctx context.Context, e *nvlink.Engine, boot bootstrap.Bootstrap, dev device.Device) (lamportTuned,
	func() error, error) {
	if boot.WorldSize() == 1 || !e.Reaches() {
		return lamportTuned{}, func() error { return nil }, nil
	}
	w, err := fused.New(ctx, fused.Comm{Job: collective.Job{Bootstrap: boot, Device: dev}, Engine: e}, fused.Config{})
	if err != nil {
		return lamportTuned{}, nil, err
	}
	l, err := w.Lamport()
	if err != nil {
		return lamportTuned{}, nil, errors.Join(err, w.Close())
	}
	e.SetLamport(l)
	return lamportTuned{l}, w.Close, nil
}

// takes reports whether it runs count elements of a sweep. Where it does not, the engine runs something else.
func (l lamportTuned) takes(w sweep, count int64) bool {
	return l.Lamport != nil && l.Takes(&collective.Request{Collective: collective.AllReduce, Count: count,
		Type: w.elements(), Op: datatype.Sum}, math.MaxInt64)
}
