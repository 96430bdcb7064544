package perf

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/device"
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
