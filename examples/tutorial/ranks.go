package tutorial

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/launch"
	"github.com/goccl/goccl/primitive"
)

// Timeout bounds every wait of a tutorial.
const Timeout = 60 * time.Second

// Options are the flags that all tutorials have.
type Options struct {
	Device  string
	Ranks   int
	Kernels string // a CUDA file, or empty for the kernels of kernels/examples
}

// Parse parses the flags; ranks is the default number of ranks. A tutorial defines its own flags before the call.
func Parse(ranks int) Options {
	var o Options
	flag.StringVar(&o.Device, "device", "auto", "auto, host or cuda")
	flag.StringVar(&o.Kernels, "kernels", "", "CUDA `file` to compile in place of goccl's kernels/examples")
	flag.IntVar(&o.Ranks, "ranks", ranks, "number of ranks")
	flag.Parse()
	return o
}

type message string

func (m message) Error() string { return string(m) }

// Message returns an error whose text is a sentence for the user.
func Message(format string, args ...any) error { return message(fmt.Sprintf(format, args...)) }

// Exit ends the program: status 1 and a plain message when err is not nil.
func Exit(err error) {
	if err == nil {
		return
	}
	var e *launch.ExitError
	if errors.As(err, &e) { // the rank has printed its error
		os.Exit(e.ExitCode())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Rank is one rank of a tutorial: a process each.
type Rank struct {
	bootstrap.Bootstrap
	Device *Device
	Ctx    *primitive.Context
	Comm   *primitive.Communicator
}

// Run makes this process a rank when a launcher (torchrun, mpirun, srun, goccl run) started it; otherwise it starts
// o.Ranks copies of itself and waits for them.
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
	if r.Device, err = Open(kind, local, o.Kernels); err != nil {
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
	// No rank leaves while a peer may still use its memory.
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

// Print prints on rank 0 only.
func (r *Rank) Print(format string, args ...any) {
	if r.Rank() == 0 {
		fmt.Printf(format+"\n", args...)
	}
}

// Memory is memory of the rank's device and its registration.
type Memory struct {
	*primitive.RegisteredMemory
	dev *Device
}

// NewMemory allocates size bytes, zeroed, and registers them for every transport that tutorials use. It is freed with
// the Context and the device.
func (r *Rank) NewMemory(size int64) (*Memory, error) {
	a, err := r.Device.Alloc(size)
	if err != nil {
		return nil, err
	}
	m, err := r.Ctx.RegisterMemory(r.Device.Device, a.Ptr(), size, primitive.Flags(primitive.IPC, primitive.Ethernet))
	return &Memory{m, r.Device}, err
}

// Write copies p to the memory at offset off.
func (m *Memory) Write(off int64, p []byte) error { return m.dev.CopyIn(m.Data().Add(off), p) }

// Read returns n bytes at off.
func (m *Memory) Read(off, n int64) ([]byte, error) {
	p := make([]byte, n)
	return p, m.dev.CopyOut(p, m.Data().Add(off))
}

// Fill writes a pattern that differs between ranks and rounds.
func (m *Memory) Fill(off, n int64, seed int) error { return m.Write(off, Pattern(n, seed)) }

// Check compares the memory with the pattern.
func (m *Memory) Check(off, n int64, seed int) error {
	got, err := m.Read(off, n)
	if err != nil {
		return err
	}
	for i, want := range Pattern(n, seed) {
		if got[i] != want {
			return fmt.Errorf("byte %d is %#x, want %#x", off+int64(i), got[i], want)
		}
	}
	return nil
}

// Pattern returns n bytes that depend on the seed.
func Pattern(n int64, seed int) []byte {
	p := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = byte(x >> 24)
	}
	return p
}

// Exchange sends this rank's memory to the peer and returns the peer's.
func (r *Rank) Exchange(m *Memory, peer, tag int) (*primitive.RegisteredMemory, error) {
	sent := r.Comm.SendMemory(m.RegisteredMemory, peer, tag)
	got, err := Get(r.Comm.RecvMemory(peer, tag))
	if err == nil {
		_, err = Get(sent)
	}
	return got, err
}

// Do launches a kernel and waits for it.
func (r *Rank) Do(k Kernel) (time.Duration, error) {
	return r.DoAll(1, func(int) Kernel { return k })
}

// DoAll launches n kernels in a row, then waits for the last.
func (r *Rank) DoAll(n int, kernel func(i int) Kernel) (time.Duration, error) {
	running, err := r.Device.LaunchAll(n, kernel)
	if err != nil {
		return 0, err
	}
	return running.Wait(Timeout, r.Ctx.Err)
}

// Meet is a barrier of all ranks.
func (r *Rank) Meet() error {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	return r.Barrier(ctx)
}

// HostStatus is the status of a host kernel's step that returned an error.
func HostStatus(err error) primitive.Status {
	if err != nil {
		return primitive.StatusAborted
	}
	return primitive.StatusOK
}
