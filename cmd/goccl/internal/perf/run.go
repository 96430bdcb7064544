package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
)

// defaultRanks is the number of ranks without a launcher or a GPU.
const defaultRanks = 8

// ErrFailed means that the measurement ended, but its results are wrong or impossible. The table shows which.
var ErrFailed = errors.New("perf: wrong or impossible results")

// Options is a whole run of `goccl perf`.
type Options struct {
	Config
	Launch
	Algos     []string   `name:"algo" placeholder:"NAME" help:"Force an algorithm, or compare several in the same run, the first being the measure; all: goccl's choice and every algorithm."`
	Against   []string   `sep:"none" placeholder:"PATH" help:"Measure a library with NCCL's ABI (libnccl.so.2) in the same run, in turns, on the same buffers."`
	JSON      string     `name:"json" placeholder:"FILE" help:"Write the results, with machine and build, to a file. - is standard output; the table then goes to standard error."`
	Plot      string     `placeholder:"FILE.svg" help:"Draw bus bandwidth and time over the size."`
	Machine   func() any `kong:"-"`
	Draw      drawing    `kong:"-"` // of package picture: measurements do without its libraries
	libraries []Library
}
type drawing = func(path, title string, rows []Row, stdout io.Writer) error

// Run runs the measurement on every rank: see Launch. Only rank 0 prints and writes files. The error is ErrFailed, or
// the reason why there are no results.
func Run(ctx context.Context, o Options) error {
	o.outputs(o.JSON, o.Plot)
	kind, err := ParseDevice(o.Device)
	if err != nil {
		return err
	}
	if o.GraphOps != 0 && kind != device.CUDA {
		return invalid("the %v device has no graphs: leave --graph out, or measure on cuda", kind)
	}
	if err := writable(o.JSON, o.Plot); err != nil {
		return err
	}
	var r reporter // of this process's ranks
	err = o.everyRank(ctx, kind, work{name: "perf", ranks: defaultRanks,
		check: func(n int, launcher string) error {
			if launcher != "" && o.Ranks != 0 && o.Ranks != n {
				return invalid("--ranks %d, but %s started %d: leave --ranks out", o.Ranks, launcher, n)
			}
			if err := o.normalize(n); err != nil || launcher != "" {
				return err
			}
			return o.fits(kind, n, n)
		},
		open: func() error {
			err := o.open(kind)
			r = o.reporter()
			return err
		},
		rank: func(ctx context.Context, boot bootstrap.Bootstrap, at place) error {
			return o.rank(ctx, boot, at, &r)
		},
	})
	switch {
	case r.table == nil: // the ranks are other processes
	case !r.leads:
		if s := Summarize(r.rows); err == nil && !s.OK() {
			return ErrFailed
		}
	default:
		return r.end(ctx, &o, err)
	}
	return err
}

// rank measures on one rank. It closes boot.
func (o *Options) rank(ctx context.Context, boot bootstrap.Bootstrap, at place, to *reporter) error {
	if at.launcher != "" {
		if err := o.fits(at.kind, boot.WorldSize(), at.localSize); err != nil {
			return errors.Join(err, boot.Close())
		}
	}
	return withRank(boot, at, func(r Rank) (err error) {
		r.Libraries = o.libraries
		leads := boot.Rank() == 0
		if leads {
			r.Reporter, to.leads = to.table, true
			to.begin(o, boot.WorldSize(), at, r)
		}
		rows, err := Measure(ctx, o.Config, r)
		if leads || at.layout == LayoutProcesses {
			to.rows = rows
		}
		return err
	})
}

// open opens the libraries: goccl first.
func (o *Options) open(kind device.Kind) error {
	if o.libraries != nil {
		return nil
	}
	algos := o.Algos
	if slices.Equal(algos, []string{"all"}) {
		var err error
		if algos, err = variants(o.Kind, kind); err != nil {
			return err
		}
		if len(algos) == 0 {
			return invalid("--algo all: %v on %v has no algorithms to choose from: leave --algo out", o.Kind, kind)
		}
		algos = append([]string{""}, algos...) // goccl's own choice is the reference
	}
	if len(algos) == 0 {
		algos = []string{""}
	}
	for _, a := range algos {
		o.libraries = append(o.libraries, &ours{algo: a, kind: o.Kind, timeout: o.Timeout})
	}
	for _, path := range o.Against {
		l, err := openABI(path, kind)
		if err != nil {
			return err
		}
		o.libraries = append(o.libraries, l)
	}
	return nil
}

// variants lists the algorithms that can be forced for k. A communicator of one rank provides the list of the host
// device.
func variants(k Kind, kind device.Kind) ([]string, error) {
	if kind == device.CUDA {
		return nvlink.Variants(k.Collective), nil
	}
	dev, err := host.Open(0)
	if err != nil {
		return nil, err
	}
	boot := bootstrap.NewLocalGroup(1)[0]
	defer func() { _, _ = boot.Close(), dev.Close() }()
	c, err := goccl.NewComm(context.Background(), goccl.Config{Bootstrap: boot, Device: dev, Name: "perf"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	var names []string
	for _, a := range c.Catalog() {
		if a.Collective == k.Collective && a.Forceable && !a.Registered {
			names = append(names, a.Name)
		}
	}
	return names, nil
}

// reporter is the output of a process. The process with rank 0 leads: it prints the table during the measurement, then
// writes the files.
type reporter struct {
	table    *Table
	terminal *os.File
	leads    bool
	record   Record // its head is filled in when the measurement begins
	rows     []Row
}

func (o *Options) reporter() reporter {
	names := make([]string, len(o.libraries))
	for i, l := range o.libraries {
		names[i] = l.Name()
	}
	r := reporter{record: Record{Schema: Schema, Time: time.Now().UTC().Truncate(time.Second), Command: o.Command,
		Build: buildinfo.Read()}}
	f := o.Stderr
	if path := setting.Lenient().Terminal; path != "" {
		if t, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			f, r.terminal = t, t
		}
	}
	r.table = NewTable(o.Stdout, NewProgress(f), names, o.Config)
	return r
}

// begin prints what will be measured on n ranks.
func (r *reporter) begin(o *Options, n int, at place, lead Rank) {
	from := ""
	if at.launcher != "" && setting.Get("GOCCL_RUN_ID") == "" { // goccl's own launcher has torchrun's variables
		from = ", started by " + at.launcher
	}
	setup := &r.record.Setup
	*setup = RecordSetup{Kind: o.Kind.String(), Ranks: n, Layout: at.layout, Launcher: at.launcher,
		Device: at.kind.String(), Product: lead.Device.Name(),
		Graph: o.GraphOps, Isolated: o.Isolated, Cycles: o.Cycles, Warmup: o.Warmup, Offset: o.Offset,
		Env: variables(setting.Environ())}
	r.table.printf("# goccl %s: %v, %s, %s%s, device %s (%s)\n", r.record.Build.Version, o.Kind,
		printable.Count(n, "rank"), at.layout, from, setup.Device, setup.Product)
	for i, l := range o.libraries {
		r.record.Libraries = append(r.record.Libraries, RecordLibrary{Name: l.Name(), Version: l.Version()})
		if i > 0 {
			r.table.printf("# beside it: %s, version %s\n", l.Name(), l.Version())
		}
	}
}

// end prints the summary and writes the files, after an interruption with the rows that are complete.
func (r *reporter) end(ctx context.Context, o *Options, err error) error {
	s := Summarize(r.rows)
	if stopped := ctx.Err() != nil; err == nil || stopped && len(r.rows) > 0 {
		if stopped {
			r.table.printf("# interrupted: this is what was measured until then\n")
		}
		r.table.Footer(s)
	} else {
		r.table.progress.Clear()
	}
	if r.terminal != nil {
		err = errors.Join(err, r.terminal.Close())
	}
	if o.JSON != "" {
		rec := &r.record
		rec.Rows, rec.Summary = r.rows, s
		if o.Machine != nil {
			rec.Machine = o.Machine()
		}
		if err != nil {
			rec.Error = err.Error()
		}
		err = errors.Join(err, SaveJSON(o.JSON, rec, o.files))
	}
	if o.Plot != "" && err == nil {
		setup := &r.record.Setup
		err = o.Draw(o.Plot, fmt.Sprintf("%s, %d ranks, %s", setup.Kind, setup.Ranks, setup.Product), r.rows, o.files)
	}
	if err = errors.Join(err, r.table.Err()); err != nil {
		return err
	}
	if !s.OK() {
		return ErrFailed
	}
	return nil
}

// variables selects the variables that change the behaviour of a library. It leaves out secrets.
func variables(environ []string) map[string]string {
	sort.Strings(environ)
	m := map[string]string{}
	for _, kv := range environ {
		k, v, _ := strings.Cut(kv, "=")
		if strings.Contains(k, "SECRET") || k == terminalVariable || k == "GOCCL_RUN_ID" {
			continue
		}
		for _, p := range []string{"GOCCL_", "NCCL_", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_"} {
			if strings.HasPrefix(k, p) {
				m[k] = v
			}
		}
	}
	return m
}

// Schema names the layout of Record. It changes when a field is removed or changes its meaning.
const Schema = "goccl-perf/2"

// Record is the file of a measurement: what ran, where, on what, and the results. docs/perf.md describes it.
type Record struct {
	Schema    string          `json:"schema"`
	Time      time.Time       `json:"time"`
	Command   []string        `json:"command"`
	Build     buildinfo.Info  `json:"build"`
	Machine   any             `json:"machine,omitempty"`
	Libraries []RecordLibrary `json:"libraries"`
	Setup     RecordSetup     `json:"setup"`
	Rows      []Row           `json:"rows"`
	Summary   Summary         `json:"summary"`
	// Error is the reason why the measurement ended early. Rows then holds the completed points.
	Error string `json:"error,omitempty"`
}

// RecordLibrary is one measured library; the others are compared with the first.
type RecordLibrary struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// RecordSetup describes the layout of the ranks and the configuration.
type RecordSetup struct {
	Kind     string `json:"collective"`
	Ranks    int    `json:"ranks"`
	Layout   string `json:"layout"` // "threads" of one process, or "processes"
	Launcher string `json:"launcher,omitempty"`
	Device   string `json:"device"` // "host" or "cuda"
	Product  string `json:"product"`
	Graph    int    `json:"graph_ops"` // as configured; -1: chosen by size
	Isolated bool   `json:"isolated"`
	Cycles   int    `json:"cycles"`
	Warmup   int    `json:"warmup"`
	Offset   int64  `json:"offset_elements"`
	// Env holds the variables that change the behaviour of a library.
	Env map[string]string `json:"env,omitempty"`
}
