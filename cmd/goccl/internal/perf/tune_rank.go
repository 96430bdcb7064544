package perf

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/job/bootstrap"
)

// tuning is one rank's part in tuning. Rank 0 prints and writes files.
type tuning struct {
	*TuneOptions
	boot     bootstrap.Bootstrap
	on       Rank
	layout   string
	printed  error            // the first error of printf
	measured map[string][]Row // by the name of the measurement
}

// everyRank runs rank on every rank. On one host it runs on GPUs, whatever kind says, unless plans are tuned.
func (o *TuneOptions) everyRank(ctx context.Context, kind device.Kind,
	rank func(ctx context.Context, t *tuning) error) error {
	return o.Launch.everyRank(ctx, kind, work{name: "tune",
		check: func(n int, launcher string) error {
			if launcher == "" && o.Hosts == 0 && n < 2 {
				return invalid("%d ranks: nothing to choose from with fewer than two", n)
			}
			return nil
		},
		open: func() error { return nil },
		rank: func(ctx context.Context, boot bootstrap.Bootstrap, at place) error {
			if hostsOf(boot) == 1 && o.Plans == "" {
				if err := needsGPUs(); err != nil {
					return errors.Join(err, boot.Close())
				}
				at.kind = device.CUDA
			}
			return withRank(boot, at, func(r Rank) error {
				t := &tuning{TuneOptions: o, boot: boot, on: r, layout: at.layout, measured: map[string][]Row{}}
				if t.leads() {
					t.on.Reporter = &tuneReporter{w: o.Stdout, progress: NewProgress(o.Stderr)}
				}
				return rank(ctx, t)
			})
		},
	})
}

func (t *tuning) leads() bool { return t.boot.Rank() == 0 }

func (t *tuning) printf(format string, args ...any) {
	if t.leads() && t.printed == nil {
		_, t.printed = fmt.Fprintf(t.Stdout, format, args...)
	}
}

// head prints the head of the table of the fastest.
func (t *tuning) head(format string, args ...any) {
	t.printf("# "+format+"\n# %12s %11s  fastest\n", append(args, "size (B)", "time (us)")...)
}

// measure measures libraries. Wrong results are an error: no file, which is a table or a plan, is written.
func (t *tuning) measure(ctx context.Context, what, file string, c Config, libraries []Library) ([]Row, error) {
	t.printf("# %s\n", what)
	if t.printed != nil {
		return nil, t.printed
	}
	t.on.Libraries = libraries
	rows, err := Measure(ctx, c, t.on)
	if err != nil {
		return nil, err
	}
	if s := Summarize(rows); !s.OK() {
		return nil, fmt.Errorf("tune: %s: %d elements wrong, %d bytes changed outside, %d impossible times: no %s is written",
			what, s.Wrong, s.Stray, s.Refused, file)
	}
	t.measured[what] = rows
	return rows, nil
}

// save writes every measured time, and the table, if there is one.
func (t *tuning) save(table any) error {
	if !t.leads() {
		return nil
	}
	if err := SaveJSON(t.Rows, t.measured, t.files); err != nil || table == nil {
		return err
	}
	return SaveJSON(t.Out, table, t.files)
}

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
