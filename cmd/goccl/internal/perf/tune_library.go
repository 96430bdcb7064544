package perf

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/buildinfo"
)

// tuned is the engine that all algorithms share, and the algorithm that is forced on it.
type tuned struct {
	engine *nvlink.Engine
	forced string
	seq    uint64
}

// libraries are the algorithms of a sweep, with each number of threads or channels.
func (t *tuned) libraries(w sweep) (list []Library) {
	for _, name := range t.engine.Variants(w.kind.Collective) {
		for _, n := range nvlink.Numbers(name) {
			list = append(list, &tuneLibrary{name: fmt.Sprintf("%s/%d", name, n), kind: w.kind, shared: t})
		}
	}
	return list
}

// tuneLibrary implements Library and Communicator with one algorithm of the engine.
type tuneLibrary struct {
	name   string
	kind   Kind
	shared *tuned
}

func (l *tuneLibrary) Name() string    { return l.name }
func (l *tuneLibrary) Version() string { return buildinfo.Read().Version }

// Open returns the library itself, which does not own the engine.
func (l *tuneLibrary) Open(context.Context, Peers, device.Device) (Communicator, error) {
	return l, nil
}

func (l *tuneLibrary) Close() error { return nil }

func (l *tuneLibrary) Submit(requests ...collective.Request) error {
	if spec := l.kind.String() + ":" + l.name; l.shared.forced != spec {
		if err := l.shared.engine.Force(spec); err != nil {
			return err
		}
		l.shared.forced = spec
	}
	seq := l.shared.seq + 1
	l.shared.seq += uint64(len(requests))
	return l.shared.engine.Enqueue(seq, requests)
}

func (l *tuneLibrary) Synchronize(ctx context.Context, s device.Stream) error {
	return errors.Join(s.Synchronize(ctx), l.shared.engine.Err())
}
