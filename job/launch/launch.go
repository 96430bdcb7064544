package launch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/netns"
	"github.com/goccl/goccl/internal/setting"
)

// Options describes the job.
type Options struct {
	N       int      // ranks, at least 1
	Program []string // the program and its arguments
	Env     []string // the environment, this process's if nil; the job's variables are added
	// Hosts, if not empty, are hosts with N / len(Hosts) ranks each, in order.
	Hosts []Host
	// Stdout and Stderr receive the ranks' output, a line at a time; nil is os.Stdout and os.Stderr.
	Stdout, Stderr io.Writer
	// Grace is the time between the first failure and SIGTERM to the other ranks; 0 is one second.
	Grace time.Duration
}

// Host is a network namespace in which ranks are started.
type Host struct {
	Prefix  []string // of the command of a rank
	Address string   // at which the other hosts reach it
}

// HostsOf are the hosts of a network on this machine.
func HostsOf(w *netns.Network) []Host {
	list := make([]Host, len(w.Hosts))
	for i := range list {
		list[i] = Host{Prefix: w.On(i), Address: w.Address(i)}
	}
	return list
}

const (
	defaultGrace = time.Second
	killDelay    = 2 * time.Second // from SIGTERM to SIGKILL
	// for output after the end of a rank, if a descendant that left its group holds the pipe
	drainDelay = 5 * time.Second
)

// mostRanks is far more than a host has processors. A larger number is a mistake that would exhaust the host's
// processes.
const mostRanks = 4096

// ErrInvalid means that the options are invalid.
var ErrInvalid = errors.New("launch: invalid options")

// ExitError describes the first rank that failed.
type ExitError struct {
	Rank   int
	Code   int            // exit status, -1 if killed or never started
	Signal syscall.Signal // the signal that killed it, 0 if none did
	Err    error          // the reason why it could not be started, or nil
}

// Error names the rank and how it ended.
func (e *ExitError) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("rank %d could not be started: %v", e.Rank, e.Err)
	case e.Signal != 0:
		return fmt.Sprintf("rank %d was killed by signal %d (%s)", e.Rank, int(e.Signal), unix.SignalName(e.Signal))
	}
	return fmt.Sprintf("rank %d exited with status %d", e.Rank, e.Code)
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is the exit status for a launcher: the rank's status, 128 + the signal as in shells, or 127 for a program
// that cannot be started.
func (e *ExitError) ExitCode() int {
	switch {
	case e.Err != nil:
		return 127
	case e.Signal != 0:
		return 128 + int(e.Signal)
	}
	return e.Code
}

// Run starts N ranks and waits for all of them. It returns nil if all exited with status 0, an *ExitError for the first
// that failed, or the context's error if that ended the job.
//
//  1. Start the ranks; they end with this process.
//  2. One goroutine per rank waits for its end, kills the rest of its group, then reaps it: while it is a zombie its
//     group's number cannot be reused. Then it drains the output. The keeper holds each group from its start until
//     then.
//  3. The first failure, or the end of ctx, starts the sequence: grace, SIGTERM, SIGKILL.
func Run(ctx context.Context, o Options) error {
	if o.N < 1 || o.N > mostRanks || len(o.Program) == 0 {
		return fmt.Errorf("%w: %d ranks of %q: choose 1 to %d ranks, and a program", ErrInvalid, o.N, o.Program, mostRanks)
	}
	if len(o.Hosts) > 0 && o.N%len(o.Hosts) != 0 {
		return fmt.Errorf("%w: %d ranks on %d hosts: the ranks must be a multiple of the hosts", ErrInvalid, o.N,
			len(o.Hosts))
	}
	o.Stdout = cmp.Or[io.Writer](o.Stdout, os.Stdout)
	o.Stderr = cmp.Or[io.Writer](o.Stderr, os.Stderr)
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	if o.Env == nil {
		o.Env = setting.Environ()
	}
	env, err := jobEnv(o)
	if err != nil {
		return err
	}
	return run(ctx, o, env)
}

func run(ctx context.Context, o Options, env []string) error {
	failed, fail := context.WithCancelCause(context.Background()) // by the first failure: later ones are its consequences
	defer fail(nil)
	k, err := startKeeper()
	if err != nil {
		return err
	}
	defer k.close()
	var output sync.Mutex
	var ranks []*process
	var running sync.WaitGroup
	for r := range o.N {
		p, err := start(o, r, env, &output, k)
		if err != nil {
			fail(&ExitError{Rank: r, Code: -1, Err: err})
			break
		}
		ranks = append(ranks, p)
		running.Go(func() {
			if e := p.wait(); e != nil {
				fail(e)
			}
		})
	}
	signal := func(s syscall.Signal) {
		for _, p := range ranks {
			p.signal(s)
		}
	}
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return context.Cause(failed)
	case <-failed.Done():
		select {
		case <-ended:
			return context.Cause(failed)
		case <-ctx.Done():
		case <-time.After(o.Grace):
		}
	case <-ctx.Done():
		fail(fmt.Errorf("launch: the job was ended: %w", context.Cause(ctx)))
	}
	signal(unix.SIGTERM)
	wait := killDelay
	for { // SIGKILL is repeated, since a group may still be growing
		select {
		case <-ended:
			return context.Cause(failed)
		case <-time.After(wait):
		}
		signal(unix.SIGKILL)
		wait = 100 * time.Millisecond
	}
}

// jobEnv returns the part of the environment that is common to all ranks.
func jobEnv(o Options) ([]string, error) {
	// goccl does not listen on this port: it is for the program's own rendezvous. It was free a moment ago.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil { // a machine without IPv4
		var six error
		if l, six = net.Listen("tcp", "[::1]:0"); six != nil {
			return nil, fmt.Errorf("launch: find a free port; is the loopback interface up (ip link set lo up)?: %w",
				errors.Join(err, six))
		}
	}
	at := l.Addr().(*net.TCPAddr)
	_ = l.Close()
	random := func() string {
		b := make([]byte, 32)
		_, _ = rand.Read(b) // never fails
		return hex.EncodeToString(b)
	}
	env := drop(o.Env, "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
		"GOCCL_SECRET", "GOCCL_RUN_ID",
		// The variables of an outer launcher or an outer job do not apply to this job.
		"NCCL_COMM_ID", "MSCCLPP_MASTER_ADDR", "MSCCLPP_MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
	master := at.IP.String()
	if len(o.Hosts) > 0 {
		master = o.Hosts[0].Address
	}
	return append(env, fmt.Sprint("WORLD_SIZE=", o.N), fmt.Sprint("LOCAL_WORLD_SIZE=", o.perHost()),
		"MASTER_ADDR="+master, "MASTER_PORT="+strconv.Itoa(at.Port),
		"GOCCL_SECRET="+random(), "GOCCL_RUN_ID="+random()), nil
}

// drop returns the environment without the variables of these names.
func drop(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(names, name)
	})
}

// perHost is the number of ranks of a host.
func (o *Options) perHost() int { return o.N / max(1, len(o.Hosts)) }

func command(o Options, rank int, env []string) *exec.Cmd {
	host, local := rank/o.perHost(), rank%o.perHost()
	line := o.Program
	if len(o.Hosts) > 0 {
		line = slices.Concat(o.Hosts[host].Prefix, line)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(env[:len(env):len(env)], fmt.Sprint("RANK=", rank), fmt.Sprint("LOCAL_RANK=", local),
		fmt.Sprint("GROUP_RANK=", host))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}
