package doctor

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/job/topo"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func size(n uint64) string {
	if n == Unlimited {
		return "unlimited"
	}
	return printable.Bytes(n)
}

func (s Source) limits(r *report, m *topo.Machine) {
	r.area = "limits"
	if s.Limit != nil {
		if n, err := s.Limit("nofile"); err == nil {
			switch {
			case n < 256:
				r.fail("open files", "ulimit -n 65536", "%d: ranks of one host need a few descriptors for each other and for "+
					"each shared buffer", n)
			case n < 4096:
				r.warn("open files", "ulimit -n 65536", "%d: enough for small jobs; each peer and each shared buffer takes one", n)
			default:
				r.ok("open files", "%s", count(n))
			}
		}
		if n, err := s.Limit("memlock"); err == nil {
			if rdma(m) && n < 1*gib {
				r.warn("locked memory", "ulimit -l unlimited, or LimitMEMLOCK=infinity; in a container --ulimit memlock=-1",
					"%s: too little to register buffers with the RDMA NICs", size(n))
			} else {
				r.ok("locked memory", "%s", size(n))
			}
		}
	}
	if s.Shm != nil {
		n, err := s.Shm()
		switch {
		case err != nil:
			r.warn("/dev/shm", "mount a tmpfs there; in a container --shm-size=1g or --ipc=host",
				"%v: goccl does not use it, NCCL and PyTorch's data loaders do", err)
		case n <= 64*mib:
			r.warn("/dev/shm", "in a container --shm-size=1g or --ipc=host",
				"%s: goccl does not use it, NCCL and PyTorch's data loaders do", size(n))
		default:
			r.ok("/dev/shm", "%s (goccl does not use it, NCCL and PyTorch do)", size(n))
		}
	}
	if s.MemoryLimit != nil {
		if n, err := s.MemoryLimit(); err == nil {
			if n < 1*gib {
				r.warn("memory cgroup", "raise the container's memory limit: shared buffers of the host device count in it", "%s",
					size(n))
			} else {
				r.ok("memory cgroup", "%s", size(n))
			}
		}
	}
	if s.CPUs != nil {
		n, gpus := s.CPUs(), 0
		if m != nil {
			gpus = len(m.GPUs)
		}
		if n < gpus {
			r.warn("processors", "give the job at least one processor per GPU (cpuset, --cpus)",
				"%d for %d GPUs: proxies and launches of the ranks will wait for each other", n, gpus)
		} else {
			r.ok("processors", "%d", n)
		}
	}
}

func count(n uint64) string {
	if n == Unlimited {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

func rdma(m *topo.Machine) bool {
	return m != nil && slices.ContainsFunc(m.NICs, func(n topo.NIC) bool { return n.RDMA != "" })
}

// network reports the network devices that jobs on several hosts would use.
func (s Source) network(r *report, m *topo.Machine) {
	if m == nil {
		return
	}
	r.area = "network"
	up := 0
	for _, n := range m.NICs {
		detail := n.Kind
		if n.SpeedMbps > 0 {
			detail += fmt.Sprintf(", %g Gb/s", float64(n.SpeedMbps)/1000)
		}
		if n.RDMA != "" {
			detail += ", RDMA as " + n.RDMA
		}
		if !n.Up {
			// An unused port is normal; it is a finding only if no port is up.
			r.ok(n.Name, "%s, down", detail)
			continue
		}
		up++
		r.ok(n.Name, "%s", detail)
	}
	if up == 0 {
		r.warn("interfaces", "nothing for one host; for several, bring an interface up or start the container with "+
			"--network=host", "no network interface with hardware behind it is up")
	}
}
