package tutorial

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/internal/launch"
	"github.com/goccl/goccl/primitive"
)

// Timeout bounds every wait of a tutorial.
const Timeout = 60 * time.Second

// Options are the flags that all tutorials have.
type Options struct {
	Device string
	Ranks  int
}

// Parse reads the flags; ranks is the default number of ranks. A tutorial defines its own flags before.
func Parse(ranks int) Options {
	var o Options
	flag.StringVar(&o.Device, "device", "auto", "auto, host or cuda")
	flag.IntVar(&o.Ranks, "ranks", ranks, "number of ranks")
	flag.Parse()
	return o
}

type message string

func (m message) Error() string { return string(m) }

// Message is an error that is a sentence for the user.
func Message(format string, args ...any) error { return message(fmt.Sprintf(format, args...)) }

// Exit ends the program: status 1 and a plain message when err is not nil.
func Exit(err error) {
	if err == nil {
		return
	}
	var e *launch.ExitError
	if errors.As(err, &e) { // the rank has said why
		os.Exit(e.ExitCode())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Rank is one rank of a tutorial, in a process of its own.
type Rank struct {
	bootstrap.Bootstrap
	Device *Device
	Ctx    *primitive.Context
	Comm   *primitive.Communicator
}

// Run makes this process a rank when a launcher (torchrun, mpirun, srun, goccl run) started it; otherwise it starts o.Ranks copies of itself and waits
// for them.
func Run(o Options, f func(r *Rank) error) error {
	env, err := bootstrap.FromEnv()
	if errors.Is(err, bootstrap.ErrNoLauncher) {
		if o.Ranks < 1 {
			return fmt.Errorf("-ranks %d: choose at least 1", o.Ranks)
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return launch.Run(context.Background(), launch.Options{N: o.Ranks, Program: append([]string{self}, os.Args[1:]...)})
	}
	if err != nil {
		return err
	}
	return runRank(o, env, f)
}

func runRank(o Options, env bootstrap.Env, f func(r *Rank) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	local := max(0, env.LocalRank)
	kind, err := Kind(o.Device, max(env.LocalSize, local+1))
	if err != nil {
		return err
	}
	r := &Rank{}
	if r.Bootstrap, err = bootstrap.Join(ctx, env); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Bootstrap.Close()) }()
	if r.Device, err = Open(kind, local); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Device.Close()) }()
	r.Ctx = primitive.NewContext(primitive.WithSpinLimit(Timeout))
	defer func() { err = errors.Join(err, r.Ctx.Close()) }()
	r.Comm = primitive.NewCommunicator(r.Bootstrap, r.Ctx)
	defer func() { err = errors.Join(err, r.Comm.Close()) }()
	if err := f(r); err != nil {
		return fmt.Errorf("rank %d: %w", r.Rank(), err)
	}
	// Nobody leaves while a peer may still use its memory.
	return r.Barrier(ctx)
}

// Transport is IPC between ranks of one host and Ethernet between hosts.
func (r *Rank) Transport(peer int) primitive.Transport {
	if h := r.Hosts(); h[peer] == h[r.Rank()] {
		return primitive.IPC
	}
	return primitive.Ethernet
}

// Get waits for a future.
func Get[T any](f *primitive.Future[T]) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	return f.Get(ctx)
}

// Print is for the first rank only.
func (r *Rank) Print(format string, args ...any) {
	if r.Rank() == 0 {
		fmt.Printf(format+"\n", args...)
	}
}
