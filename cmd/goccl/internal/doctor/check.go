package doctor

import (
	"context"

	"github.com/goccl/goccl/cmd/goccl/internal/links"
	"github.com/goccl/goccl/internal/driver/nvml"
	"github.com/goccl/goccl/job/topo"
)

// Source provides the facts that Check examines. Any field may be nil: its findings are then left out.
type Source struct {
	// Environment returns the environment of the process, like setting.Environ.
	Environment func() []string
	// Driver loads the driver and returns the CUDA version that it supports, or the reason why it does not work.
	Driver func() (cuda int, err error)
	// Hardware reports whether an NVIDIA GPU is installed, independently of the driver.
	Hardware func() bool
	Machine  func(context.Context) (*topo.Machine, error)
	// Visible returns the number of GPUs that this process may use.
	Visible func() (int, error)
	// PeerAccess reports whether visible GPU a can access visible GPU b.
	PeerAccess func(a, b int) (bool, error)
	// Links measures every pair of n visible GPUs.
	Links func(ctx context.Context, n int) ([]links.Verdict, error)
	// NICs measures every network adapter.
	NICs func(context.Context) []links.NIC
	// Health reads the state of the GPUs.
	Health func() ([]nvml.Health, error)
	// Isolation looks at what keeps processes and devices apart.
	Isolation func(*topo.Machine) Isolation
	// Plugin opens the plugin of the network, if there is one, and describes it; ok is false if there is none.
	Plugin func() (text string, ok bool, err error)
	// Share tries to allocate and to export memory of visible GPU 0, as VMM and as legacy IPC.
	Share func(context.Context) (vmm, legacy error)
	// Limit returns the soft limit of the process: "nofile", "memlock" (bytes); Unlimited if there is none.
	Limit func(name string) (uint64, error)
	// Shm returns the size of /dev/shm in bytes.
	Shm func() (uint64, error)
	// MemoryLimit returns the memory cgroup's limit in bytes, Unlimited if there is none.
	MemoryLimit func() (uint64, error)
	// CPUs returns the number of processors on which the process may run.
	CPUs func() int
}

// Unlimited is the value for no limit.
const Unlimited = ^uint64(0)

// Check examines this host.
func Check(ctx context.Context) []Finding { return Host().Check(ctx) }

// Check examines s. Queries that may hang (a broken driver) are abandoned when ctx ends, and reported as failed.
func (s Source) Check(ctx context.Context) []Finding {
	r := new(report)
	ok := s.driver(ctx, r)
	m := s.gpus(ctx, r, ok)
	if ok {
		s.sharing(ctx, r)
	}
	s.health(ctx, r)
	s.limits(r, m)
	s.isolation(r, m)
	s.network(r, m)
	s.distances(r, m)
	s.adapters(ctx, r)
	s.plugin(ctx, r)
	s.environment(r, m)
	return r.findings
}
