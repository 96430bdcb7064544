package perf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/job/bootstrap"
)

// TuneOptions are the options of `goccl tune`; the tags are its flags.
type TuneOptions struct {
	Collectives []string `arg:"" name:"collective" optional:"" help:"Which to tune; default: all that have algorithms to choose from."`
	Out         string   `xor:"result" placeholder:"FILE" help:"Write the table here; - is standard output, and what is printed goes to standard error. GOCCL_TUNING=FILE uses it."`
	Plans       string   `xor:"result" placeholder:"FOLDER" help:"Search plans for the topology instead, and write those here that are faster than what goccl runs without them. GOCCL_PLAN_DIR=FOLDER uses them."`
	Launch

	MinBytes int64    `type:"size" short:"b" default:"1K" placeholder:"SIZE" help:"Smallest size (default 1K). K, M and G are understood."`
	MaxBytes int64    `type:"size" short:"e" default:"64M" placeholder:"SIZE" help:"Largest size (default 64M)."`
	Factor   float64  `short:"f" default:"2" help:"From one size to the next (default ${default})."`
	Cycles   int      `short:"c" default:"5" help:"Timed batches (default ${default})."`
	Modes    []string `name:"mode" help:"eager, graph, or both (default). A table for one of them is used for the other too."`
	Widths   []int    `name:"width" help:"Element widths in bytes of reductions: some of 1,2,4,8 (default: all). Others use the nearest one."`
	Check    bool     `help:"Check every element of every result."`

	Rows    string        `name:"json" placeholder:"FILE" help:"Also write every time that was measured."`
	Timeout time.Duration `default:"60s" help:"Bound on every wait (default ${default})."`
}

const (
	// pruneFactor: an algorithm that is this much slower than the best is not the best at larger sizes.
	pruneFactor = 2
	// pruneFrom is where bandwidth begins to dominate: at 1 MiB the ring takes twice the time of packets, at 64 MiB
	// less.
	pruneFrom = 16 << 20
	// keepFactor: the algorithm of the previous size stays unless the best is faster by more than the noise of a
	// measurement.
	keepFactor = 1.03
)

// tuneTypes are the types that represent the widths: types with kernels specialised for a number of ranks, if there are
// any.
var tuneTypes = map[int]datatype.Type{1: datatype.Int8, 2: datatype.Bfloat16, 4: datatype.Float32, 8: datatype.Float64}

// sweep is one measurement: a collective in one mode with elements of one width. Width 0: the collective does not
// depend on the element type.
type sweep struct {
	kind  Kind
	mode  string
	width int
}

func (s sweep) String() string {
	if s.width == 0 {
		return fmt.Sprintf("%v %s", s.kind, s.mode)
	}
	return fmt.Sprintf("%v %s, %d-byte elements", s.kind, s.mode, s.width)
}

func (s sweep) elements() datatype.Type {
	if s.width == 0 {
		return datatype.Float32
	}
	return tuneTypes[s.width]
}

func (o *TuneOptions) sweeps(kinds []Kind) ([]sweep, error) {
	modes, widths := o.Modes, o.Widths
	if len(modes) == 0 {
		modes = []string{nvlink.ModeGraph, nvlink.ModeEager}
	}
	if len(widths) == 0 {
		widths = []int{4, 2, 1, 8}
	}
	for i, m := range modes {
		if m != nvlink.ModeEager && m != nvlink.ModeGraph || slices.Contains(modes[:i], m) {
			return nil, invalid("mode %q: want %s, %s, or both once", m, nvlink.ModeEager, nvlink.ModeGraph)
		}
	}
	for i, w := range widths {
		if _, ok := tuneTypes[w]; !ok || slices.Contains(widths[:i], w) {
			return nil, invalid("width %d: want some of 1, 2, 4 and 8, each once", w)
		}
	}
	var list []sweep
	for _, k := range kinds {
		for _, m := range modes {
			if !k.HasOp() {
				list = append(list, sweep{k, m, 0})
				continue
			}
			for _, w := range widths {
				list = append(list, sweep{k, m, w})
			}
		}
	}
	return list, nil
}

// Tune measures every algorithm with several numbers of threads or channels, in graphs and eagerly, for every element
// width. It writes the table that selects the fastest by size, in the format that GOCCL_TUNING reads. Collectives that
// are not measured keep their rows of the current table.
func Tune(ctx context.Context, o TuneOptions) error {
	o.outputs(o.Out, o.Rows)
	kinds, err := o.kinds(tunable(), func(k Kind) error { return invalid("%v has no algorithms to choose from", k) })
	if err != nil {
		return err
	}
	if err := writable(o.Out, o.Rows); err != nil {
		return err
	}
	sweeps, err := o.sweeps(kinds)
	if err != nil {
		return err
	}
	for _, w := range sweeps {
		c := o.config(w)
		if err := c.normalize(max(2, o.Ranks)); err != nil {
			return err
		}
	}
	kind, err := ParseDevice(o.Device)
	if err != nil {
		return err
	}
	if _, err := bootstrap.FromEnv(); errors.Is(err, bootstrap.ErrNoLauncher) && o.Hosts == 0 {
		if err := needsGPUs(); err != nil {
			return err
		}
	}
	return o.everyRank(ctx, kind, func(ctx context.Context, t *tuning) error {
		if hostsOf(t.boot) > 1 {
			return t.across(ctx, kinds, kind)
		}
		return t.onGPUs(ctx, sweeps)
	})
}

// needsGPUs is an error if there are none: on one host the host device has no table.
func needsGPUs() error {
	if _, err := ParseDevice("cuda"); err != nil {
		return fmt.Errorf("tune: the host device has nothing to choose from on one host: %w", err)
	}
	return nil
}

// tunable lists the kinds that have algorithms to choose from.
func tunable() (kinds []Kind) {
	for _, name := range Kinds() {
		if k, err := ParseKind(name); err == nil && !k.Ring && len(nvlink.Variants(k.Collective)) > 1 {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// kinds lists the kinds to measure: all, or the named ones, each of which must be in all. why says why one is refused.
func (o *TuneOptions) kinds(all []Kind, why func(k Kind) error) ([]Kind, error) {
	if len(o.Collectives) == 0 {
		return all, nil
	}
	var chosen []Kind
	for _, name := range o.Collectives {
		k, err := ParseKind(name)
		if err != nil {
			return nil, invalid("%w", err)
		}
		if !slices.Contains(all, k) {
			return nil, why(k)
		}
		chosen = append(chosen, k)
	}
	return chosen, nil
}

func (o *TuneOptions) config(w sweep) Config {
	c := Config{Kind: w.kind, Types: []datatype.Type{w.elements()}, MinBytes: o.MinBytes, MaxBytes: o.MaxBytes,
		Factor: o.Factor, Cycles: o.Cycles, Warmup: 1,
		Check: o.Check, OutOfPlace: true, Prune: pruneFactor, PruneFrom: pruneFrom, Timeout: o.Timeout}
	if w.mode == nvlink.ModeGraph {
		c.GraphOps = GraphAuto
	}
	return c
}

// onGPUs measures the sweeps on one rank. Rank 0 writes the table.
func (t *tuning) onGPUs(ctx context.Context, sweeps []sweep) (err error) {
	n, dev := t.boot.WorldSize(), t.on.Device
	engine, err := nvlink.New(ctx, nvlink.Config{Job: collective.Job{Bootstrap: t.boot, Device: dev,
		OpTimeout: t.Timeout}})
	if err != nil {
		return fmt.Errorf("tune: rank %d: %w", t.boot.Rank(), err)
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	table, err := engine.Table()
	if err != nil {
		return err
	}
	table.GPU, table.Ranks = dev.Name(), n
	table.Note = fmt.Sprintf("measured by goccl tune %s: %d ranks as %s", buildinfo.Read().Version, n, t.layout)
	t.head("%s\n# %s, %d ranks", table.Note, dev.Name(), n)
	best := make([][]nvlink.Row, len(sweeps))
	shared := &tuned{engine: engine}
	for i, w := range sweeps {
		rows, err := t.measure(ctx, w.String(), "table", t.config(w), shared.libraries(w))
		if err != nil {
			return err
		}
		t.measured[w.String()], best[i] = rows, fastest(rows)
	}
	enter(table, sweeps, best)
	return t.save(table)
}

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
