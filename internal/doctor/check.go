package doctor

import (
	"context"

	"github.com/goccl/goccl/topo"
)

// Source is where Check takes its facts. Any field may be nil: what it would tell is then left out.
type Source struct {
	// Environment is the process's, as os.Environ.
	Environment func() []string
	// Driver loads the driver: nil when it works, with the CUDA version that it supports.
	Driver func() (cuda int, err error)
	// Hardware reports whether an NVIDIA GPU is plugged in, whatever the driver says.
	Hardware func() bool
	Machine  func(context.Context) (*topo.Machine, error)
	// Visible is the number of GPUs that this process may use.
	Visible func() (int, error)
	// PeerAccess tells whether visible GPU a reaches visible GPU b.
	PeerAccess func(a, b int) (bool, error)
	// Share tries to allocate and to export memory of visible GPU 0, as VMM and as legacy IPC.
	Share func(context.Context) (vmm, legacy error)
	// Limit is the soft limit of the process: "nofile", "memlock" (bytes); Unlimited if there is none.
	Limit func(name string) (uint64, error)
	// Shm is the size of /dev/shm in bytes.
	Shm func() (uint64, error)
	// MemoryLimit is the memory cgroup's limit in bytes, Unlimited if there is none.
	MemoryLimit func() (uint64, error)
	// CPUs is how many processors the process may run on.
	CPUs func() int
}

// Unlimited is a limit that is not there.
const Unlimited = ^uint64(0)

// Check examines this host.
func Check(ctx context.Context) []Finding { return Host().Check(ctx) }

// Check examines what s describes. Questions that may hang (a sick driver) are given up when ctx ends, and reported as failed.
func (s Source) Check(ctx context.Context) []Finding {
	var all []Finding
	ok := s.driver(ctx, &all)
	m := s.gpus(ctx, &all, ok)
	if ok {
		s.sharing(ctx, &all)
	}
	s.limits(&all, m)
	s.network(&all, m)
	s.environment(&all, m)
	return all
}

// ask runs a question that may hang. The goroutine outlives ctx if the question does.
func ask[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	c := make(chan answer, 1)
	go func() {
		v, err := f()
		c <- answer{v, err}
	}()
	select {
	case a := <-c:
		return a.v, a.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}
