package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/launch"
)

// The layouts of ranks that Run starts itself.
const (
	LayoutAuto      = ""          // processes on CUDA, threads on the host
	LayoutThreads   = "threads"   // goroutines of this process
	LayoutProcesses = "processes" // one process per rank
)

// defaultRanks is the number of ranks without a launcher or a GPU.
const defaultRanks = 8

// ErrFailed means that the measurement ended, but its results are wrong or impossible. The table shows which.
var ErrFailed = errors.New("perf: wrong or impossible results")

// Options is a whole run of `goccl perf`.
type Options struct {
	Config
	Ranks  int    // ranks to start here; 0: one per GPU, or 8 on the host. A launcher overrides it
	Device string // auto, host, cuda
	Layout string
	Hosts  int // network namespaces to make and to divide the ranks among; 0: none
	// forced algorithms, side by side; none: goccl's own choice; "all": its own choice and each available algorithm
	Algos     []string
	Against   []string // paths of libraries with NCCL's ABI, measured side by side
	JSON      string   // file for the Record
	Plot      string   // file for the picture
	Command   []string // this program and its arguments, to start ranks and for the record
	Machine   func() any
	Stdout    io.Writer
	Stderr    *os.File // progress is written here if it is a terminal
	libraries []Library
	files     io.Writer // for files of the name "-"
}

// terminalVariable passes the terminal of the starting process to rank 0, whose own output is a pipe.
const terminalVariable = "GOCCL_PERF_TERMINAL"

// Run runs the measurement in one of three layouts:
//
//  1. under a launcher this process is one rank;
//  2. otherwise, with a process per rank, it starts itself again under the launcher of `goccl run`, and each copy does
//     step 1;
//  3. otherwise its ranks are goroutines.
//
// Only rank 0 prints and writes files. The error is ErrFailed, or the reason why there are no results.
func Run(ctx context.Context, o Options) error {
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.files = o.Stdout; o.JSON == "-" || o.Plot == "-" {
		o.Stdout = o.Stderr // the file is alone on standard output
	}
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
	env, err := bootstrap.FromEnv()
	switch {
	case err == nil:
		return o.runRank(ctx, kind, env)
	case !errors.Is(err, bootstrap.ErrNoLauncher):
		return err
	}
	n := o.Ranks
	if n == 0 {
		if n, err = gpus(kind); err != nil {
			return err
		}
		if n == 0 {
			n = defaultRanks
		}
	}
	if err := o.normalize(n); err != nil {
		return err
	}
	if err := o.fits(kind, n, n); err != nil {
		return err
	}
	if o.Hosts > 0 {
		return o.onHosts(ctx, kind, n)
	}
	switch o.Layout {
	case LayoutProcesses:
		return o.start(ctx, n)
	case LayoutAuto:
		if kind == device.CUDA && n > 1 {
			return o.start(ctx, n)
		}
	case LayoutThreads:
	default:
		return invalid("unknown layout %q", o.Layout)
	}
	if err := o.open(kind); err != nil {
		return err
	}
	rep := o.reporter()
	var lead Rank
	rows, err := measureThreads(ctx, o.Config, n, kind, o.libraries, rep.table,
		func(r Rank) { lead = r; rep.begin(&o, n, LayoutThreads, "", r) })
	return rep.end(ctx, &o, rows, err, n, LayoutThreads, "", lead)
}

// runRank runs one rank under a launcher.
func (o *Options) runRank(ctx context.Context, kind device.Kind, env bootstrap.Env) error {
	n := env.WorldSize
	if o.Ranks != 0 && o.Ranks != n {
		return invalid("--ranks %d, but %s started %d: leave --ranks out", o.Ranks, env.Launcher, n)
	}
	if err := o.normalize(n); err != nil {
		return err
	}
	if err := o.open(kind); err != nil {
		return err
	}
	boot, err := bootstrap.Join(ctx, env)
	if err != nil {
		return fmt.Errorf("perf: join: %w", err)
	}
	local, localSize := env.LocalRank, env.LocalSize
	if local < 0 {
		local = bootstrap.LocalRank(boot)
	}
	if localSize <= 0 {
		localSize = bootstrap.LocalSize(boot)
	}
	if err := o.fits(kind, n, localSize); err != nil {
		return errors.Join(err, boot.Close())
	}
	rep := o.reporter()
	var lead Rank
	rows, err := measureOne(ctx, o.Config, boot, kind, local, localSize, true, o.libraries, rep.table,
		func(r Rank) { lead = r; rep.begin(o, n, LayoutProcesses, env.Launcher, r) })
	if env.Rank != 0 {
		if err == nil && !summaryOK(rows) {
			err = ErrFailed
		}
		return err
	}
	return rep.end(ctx, o, rows, err, n, LayoutProcesses, env.Launcher, lead)
}

func summaryOK(rows []Row) bool {
	s := Summarize(rows)
	return s.OK()
}

// start runs this program again, n times, on the given hosts.
func (o *Options) start(ctx context.Context, n int, hosts ...launch.Host) error {
	if len(o.Command) == 0 {
		return errors.New("perf: a process per rank needs the command to start")
	}
	// The name is kept if it can be found, since a program may depend on its name.
	program, err := exec.LookPath(o.Command[0])
	if err != nil {
		if program, err = os.Executable(); err != nil {
			return fmt.Errorf("perf: find this program, to start ranks: %w", err)
		}
	}
	env := setting.Environ()
	if NewProgress(o.Stderr) != nil {
		env = append(env, fmt.Sprintf("%s=/proc/%d/fd/%d", terminalVariable, os.Getpid(), o.Stderr.Fd()))
	}
	stderr := io.Writer(os.Stderr)
	if o.Stderr != nil {
		stderr = o.Stderr
	}
	err = launch.Run(ctx, launch.Options{N: n, Program: append([]string{program}, o.Command[1:]...), Env: env,
		Hosts: hosts, Stdout: &leadWriter{w: o.files}, Stderr: stderr})
	var exit *launch.ExitError
	if errors.As(err, &exit) && exit.Code == ExitFailed {
		return ErrFailed
	}
	return err
}

// ExitFailed is the exit status of `goccl perf` for ErrFailed.
const ExitFailed = 3

// leadWriter copies the output of rank 0, without the launcher's "[0] ".
type leadWriter struct{ w io.Writer }

func (l *leadWriter) Write(line []byte) (int, error) {
	rest := string(line)
	if head, tail, ok := strings.Cut(rest, "] "); ok && strings.HasPrefix(head, "[") &&
		strings.Trim(head[1:], " 0") == "" {
		rest = tail
	}
	if _, err := io.WriteString(l.w, rest); err != nil {
		return 0, err
	}
	return len(line), nil
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

// reporter is the output of rank 0: the table during the measurement, then the files.
type reporter struct {
	table    *Table
	started  time.Time
	terminal *os.File
}

func (o *Options) reporter() *reporter {
	names := make([]string, len(o.libraries))
	for i, l := range o.libraries {
		names[i] = l.Name()
	}
	r := &reporter{started: time.Now()}
	f := o.Stderr
	if path := setting.Lenient().Terminal; path != "" {
		if t, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			f, r.terminal = t, t
		}
	}
	r.table = NewTable(o.Stdout, NewProgress(f), names, o.Config)
	return r
}

// begin prints what will be measured.
func (r *reporter) begin(o *Options, n int, layout, launcher string, lead Rank) {
	from, s := "", "s"
	if launcher != "" && setting.Get("GOCCL_RUN_ID") == "" { // goccl's own launcher has torchrun's variables
		from = ", started by " + launcher
	}
	if n == 1 {
		s = ""
	}
	r.table.printf("# goccl %s: %v, %d rank%s, %s%s, device %v (%s)\n", buildinfo.Read().Version, o.Kind, n, s, layout,
		from, lead.Device.ID().Kind, lead.Device.Name())
	for _, l := range o.libraries[1:] {
		r.table.printf("# beside it: %s, version %s\n", l.Name(), l.Version())
	}
}

// end prints the summary and writes the files, after an interruption with the rows that are complete.
func (r *reporter) end(ctx context.Context, o *Options, rows []Row, err error, n int, layout, launcher string,
	lead Rank) error {
	s := Summarize(rows)
	if stopped := ctx.Err() != nil; err == nil || stopped && len(rows) > 0 {
		if stopped {
			r.table.printf("# interrupted: this is what was measured until then\n")
		}
		r.table.Footer(s)
	} else if r.table.progress != nil {
		r.table.progress.Clear()
	}
	if r.terminal != nil {
		err = errors.Join(err, r.terminal.Close())
	}
	if o.JSON != "" && lead.Device != nil {
		rec := Record{Schema: Schema, Time: r.started.UTC().Truncate(time.Second), Command: o.Command,
			Build: buildinfo.Read(), Rows: rows, Summary: s,
			Setup: RecordSetup{Kind: o.Kind.String(), Ranks: n, Layout: layout, Launcher: launcher,
				Device: lead.Device.ID().Kind.String(), Product: lead.Device.Name(),
				Graph: o.GraphOps, Isolated: o.Isolated, Cycles: o.Cycles, Warmup: o.Warmup, Offset: o.Offset,
				Env: variables(setting.Environ())}}
		for _, l := range o.libraries {
			rec.Libraries = append(rec.Libraries, RecordLibrary{Name: l.Name(), Version: l.Version()})
		}
		if o.Machine != nil {
			rec.Machine = o.Machine()
		}
		if err != nil {
			rec.Error = err.Error()
		}
		err = errors.Join(err, rec.Write(o.JSON, o.files))
	}
	if o.Plot != "" && err == nil {
		err = Plot(o.Plot, fmt.Sprintf("%v, %d ranks, %s", o.Kind, n, lead.Device.Name()), rows, o.files)
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
