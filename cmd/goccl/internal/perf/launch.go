package perf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/netns"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/launch"
)

// The layouts of ranks.
const (
	LayoutThreads   = "threads"   // goroutines of this process
	LayoutProcesses = "processes" // one process per rank
)

// ranksPerHost is the number of ranks of a host of --hosts without --ranks.
const ranksPerHost = 4

// Launch says on which ranks a measurement runs, by flags, and where its output goes.
type Launch struct {
	Ranks     int    `type:"count" short:"n" placeholder:"N" help:"Ranks to start here. Default: one per GPU; perf has 8 on the host device. A launcher (mpirun, torchrun, srun) decides itself."`
	Device    string `enum:"auto,host,cuda" default:"auto" help:"auto, host or cuda. auto is cuda where a GPU can be used. On one host tune has choices on cuda only."`
	Processes bool   `xor:"layout" help:"A process per rank. The default on cuda."`
	Threads   bool   `xor:"layout" help:"All ranks in this process. The default on the host device."`
	Hosts     int    `placeholder:"N" help:"Make N hosts on this machine (network namespaces; needs root) and divide the ranks among them; the default is 4 ranks a host. Under a launcher the hosts are its own."`

	Command []string  `kong:"-"` // this program and its arguments, to start ranks and for the record
	Stdout  io.Writer `kong:"-"`
	Stderr  *os.File  `kong:"-"` // progress is written here if it is a terminal
	files   io.Writer // for files of the name "-"
}

// place is where a rank runs, and how it was started.
type place struct {
	kind             device.Kind
	local, localSize int // among the ranks of its host
	layout           string
	launcher         string // "" if there is none: threads that were started here
}

// work is what everyRank does.
type work struct {
	name  string // in errors
	ranks int    // without --ranks and GPUs
	// check is called once in each process, before ranks are started or joined; launcher is "" if there is none.
	check func(n int, launcher string) error
	// open is called once in each process that has ranks.
	open func() error
	// rank is the work of one rank. It closes boot.
	rank func(ctx context.Context, boot bootstrap.Bootstrap, at place) error
}

// outputs redirects printed text to standard error if one of the files goes to standard output.
func (l *Launch) outputs(files ...string) {
	l.Stdout = cmp.Or[io.Writer](l.Stdout, os.Stdout)
	l.files = l.Stdout
	if slices.Contains(files, "-") {
		l.Stdout = l.Stderr
	}
}

// everyRank runs work in one of three layouts:
//
//  1. under a launcher this process is one rank;
//  2. otherwise, with a process per rank, it starts itself again under the launcher of `goccl run`, and each copy does
//     step 1;
//  3. otherwise its ranks are goroutines.
func (l *Launch) everyRank(ctx context.Context, kind device.Kind, w work) error {
	env, err := bootstrap.FromEnv()
	if err == nil {
		return l.launched(ctx, kind, env, w)
	}
	if !errors.Is(err, bootstrap.ErrNoLauncher) {
		return err
	}
	n := l.Ranks
	if n == 0 {
		if n, err = gpus(kind); err != nil {
			return err
		}
		n = cmp.Or(n, w.ranks)
	}
	if err := w.check(n, ""); err != nil {
		return err
	}
	if l.Hosts > 0 {
		return l.onHosts(ctx, kind, n)
	}
	if l.Processes || kind == device.CUDA && n > 1 && !l.Threads {
		return l.start(ctx, n)
	}
	if err := w.open(); err != nil {
		return err
	}
	return RanksAsThreads(ctx, n, func(ctx context.Context, boot bootstrap.Bootstrap, i int) error {
		return w.rank(ctx, boot, place{kind: kind, local: i, localSize: n, layout: LayoutThreads})
	})
}

// launched is this process's rank under a launcher.
func (l *Launch) launched(ctx context.Context, kind device.Kind, env bootstrap.Env, w work) error {
	if err := w.check(env.WorldSize, env.Launcher); err != nil {
		return err
	}
	if err := w.open(); err != nil {
		return err
	}
	boot, err := bootstrap.Join(ctx, env)
	if err != nil {
		return fmt.Errorf("%s: join: %w", w.name, err)
	}
	at := place{kind: kind, local: env.LocalRank, localSize: env.LocalSize, layout: LayoutProcesses,
		launcher: env.Launcher}
	if at.local < 0 {
		at.local = bootstrap.LocalRank(boot)
	}
	if at.localSize <= 0 {
		at.localSize = bootstrap.LocalSize(boot)
	}
	return w.rank(ctx, boot, at)
}

// onHosts makes hosts and starts n ranks on them.
func (l *Launch) onHosts(ctx context.Context, kind device.Kind, n int) error {
	if l.Ranks == 0 && kind == device.Host {
		n = ranksPerHost * l.Hosts
	}
	if n%l.Hosts != 0 {
		return invalid("%d ranks on %d hosts: --ranks must be a multiple of --hosts", n, l.Hosts)
	}
	if l.Threads {
		return invalid("--threads: the ranks of a process are on one host: leave it out with --hosts")
	}
	w, err := netns.New(l.Hosts)
	if err != nil {
		return err
	}
	defer w.Close()
	return l.start(ctx, n, launch.HostsOf(w)...)
}

// terminalVariable passes the terminal of the starting process to rank 0, whose own output is a pipe.
const terminalVariable = "GOCCL_PERF_TERMINAL"

// start runs this program again, n times, on the given hosts.
func (l *Launch) start(ctx context.Context, n int, hosts ...launch.Host) error {
	if len(l.Command) == 0 {
		return errors.New("perf: a process per rank needs the command to start")
	}
	// The name is kept if it can be found, since a program may depend on its name.
	program, err := exec.LookPath(l.Command[0])
	if err != nil {
		if program, err = os.Executable(); err != nil {
			return fmt.Errorf("perf: find this program, to start ranks: %w", err)
		}
	}
	env := setting.Environ()
	if NewProgress(l.Stderr) != nil {
		env = append(env, fmt.Sprintf("%s=/proc/%d/fd/%d", terminalVariable, os.Getpid(), l.Stderr.Fd()))
	}
	stderr := cmp.Or(l.Stderr, os.Stderr)
	err = launch.Run(ctx, launch.Options{N: n, Program: append([]string{program}, l.Command[1:]...), Env: env,
		Hosts: hosts, Stdout: &leadWriter{w: l.files}, Stderr: NewErrorWriter(ctx, stderr)})
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

// ErrorWriter copies lines of ranks that a launcher has started. An error of this program, which all ranks may have for
// the same reason, is copied once; one after an interruption is not: the ranks end one before the other.
type ErrorWriter struct {
	ctx  context.Context // ends with an interruption, before the launcher ends the ranks
	w    io.Writer
	seen map[string]bool
}

// NewErrorWriter copies to w until ctx ends.
func NewErrorWriter(ctx context.Context, w io.Writer) *ErrorWriter {
	return &ErrorWriter{ctx, w, map[string]bool{}}
}

// Write takes one line, with the launcher's "[0] ". The launcher calls it from one goroutine at a time.
func (e *ErrorWriter) Write(line []byte) (int, error) {
	if _, text, _ := strings.Cut(string(line), "] "); strings.HasPrefix(text, "goccl: ") {
		if e.seen[text] || e.ctx.Err() != nil {
			return len(line), nil
		}
		e.seen[text] = true
	}
	return e.w.Write(line)
}

// RanksAsThreads runs n ranks as goroutines of this process, each of which closes boot. When one fails, the context of
// the others is cancelled; it returns the first error.
func RanksAsThreads(ctx context.Context, n int,
	rank func(ctx context.Context, boot bootstrap.Bootstrap, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, boot := range bootstrap.NewLocalGroup(n) {
		// A rank that fails unblocks the others: its bootstrap is closed, and the context is cancelled.
		g.Go(func() error { return rank(ctx, boot, i) })
	}
	return g.Wait()
}

// ParseDevice parses the kind of device: "host", "cuda", or "auto", which is CUDA if a GPU is usable.
func ParseDevice(s string) (device.Kind, error) {
	switch s {
	case "host":
		return device.Host, nil
	case "cuda":
		if err := cuda.Available(); err != nil {
			return 0, fmt.Errorf("perf: --device cuda: %w", err)
		}
		return device.CUDA, nil
	case "", "auto":
		if cuda.Available() == nil {
			if n, err := cuda.Count(); err == nil && n > 0 {
				return device.CUDA, nil
			}
		}
		return device.Host, nil
	}
	return 0, invalid("unknown device %q: use auto, host or cuda", s)
}

// gpus returns the number of GPUs that ranks of kind can use; 0 for the host.
func gpus(kind device.Kind) (int, error) {
	if kind != device.CUDA {
		return 0, nil
	}
	return cuda.Count()
}

// OpenDevice opens the device of the rank with the given local rank: the GPUs in turn.
func OpenDevice(kind device.Kind, local int) (device.Device, error) {
	if kind == device.Host {
		return host.Open(local)
	}
	n, err := cuda.Count()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: no GPU is visible", device.ErrNoDevice)
	}
	return cuda.Open(local % n)
}

// withRank opens the resources of one rank for f, and closes them and boot. Work on the host device runs in the rank's
// own goroutine, on a synchronous stream.
func withRank(boot bootstrap.Bootstrap, at place, f func(r Rank) error) (err error) {
	defer func() { err = errors.Join(err, boot.Close()) }()
	fail := func(err error) error { return fmt.Errorf("perf: rank %d: %w", boot.Rank(), err) }
	dev, err := OpenDevice(at.kind, at.local)
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	r := Rank{Peers: boot, Device: dev}
	if at.kind == device.Host {
		r.Stream, err = dev.WrapStream(0)
	} else {
		r.Stream, err = dev.NewStream()
		r.Capture = Capture
	}
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, r.Stream.Close()) }()
	count, err := gpus(at.kind)
	if err != nil {
		return err
	}
	r.Limits = LimitsOf(dev, runtime.NumCPU(), at.localSize <= count)
	r.Crowded = at.layout == LayoutProcesses && at.kind == device.Host && at.localSize > runtime.GOMAXPROCS(0)
	return f(r)
}
