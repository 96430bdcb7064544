package ib

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccl/goccl/internal/driver/verbs"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/internal/sysfile"
	"github.com/goccl/goccl/transport"
)

// Options configures a Net. The zero value of a number means the default.
type Options struct {
	setting.IB
	SendDepth    int // work requests in the adapter, of one Peer: 256
	ReceiveDepth int // receives in the adapter, of one Peer: 512
	// CompletionDepth bounds SendDepth and ReceiveDepth together; by default nothing does.
	CompletionDepth int
	QueueLimit      int // work requests that wait in memory, of one Peer: 65536
}

// Net is the network of RDMA adapters.
type Net struct{ opt Options }

var _ transport.Net = (*Net)(nil)

// New makes a Net. Options.IB is setting.DefaultIB or what setting.Read returns.
func New(opt Options) *Net {
	opt.SendDepth, opt.ReceiveDepth = cmp.Or(opt.SendDepth, 256), cmp.Or(opt.ReceiveDepth, 512)
	opt.QueueLimit = cmp.Or(opt.QueueLimit, 1<<16)
	if n := opt.CompletionDepth; n > 0 && opt.SendDepth+opt.ReceiveDepth > n {
		opt.ReceiveDepth = max(1, min(opt.ReceiveDepth, n/2))
		opt.SendDepth = max(1, min(opt.SendDepth, n-opt.ReceiveDepth))
	}
	return &Net{opt}
}

// Name returns "ib".
func (n *Net) Name() string { return "ib" }

// system is where devices are described.
var system = sysfs{sysfile.Host + "sys/class/infiniband"}

// usable lists the ports that have a link and that the user's filter allows.
func (s sysfs) usable(opt setting.IB) []adapter {
	if opt.Disabled {
		return nil
	}
	var all []adapter
	f := parseFilter(opt.Adapters)
	for _, d := range s.devices() {
		all = append(all, slices.DeleteFunc(s.adapters(d), func(a adapter) bool {
			return !a.active || !f.match(d, a.port)
		})...)
	}
	return all
}

// NICs lists the ports that have a link. Without libibverbs, or without adapters, it lists none.
func (n *Net) NICs() ([]transport.NIC, error) {
	found := system.usable(n.opt.IB)
	if len(found) == 0 || verbs.Load() != nil {
		return nil, nil
	}
	nics := make([]transport.NIC, len(found))
	for i := range found {
		a := &found[i]
		nics[i] = transport.NIC{Name: a.name(), PCI: a.pci, Speed: a.speed, DeviceMem: deviceMemory(a.device)}
	}
	return nics, nil
}

// Open opens an adapter by its index in NICs.
func (n *Net) Open(nic int) (transport.Port, error) {
	found := system.usable(n.opt.IB)
	if nic < 0 || nic >= len(found) {
		return nil, fmt.Errorf("ib: adapter %d of %d: %w", nic, len(found), unusable(n.opt.IB))
	}
	return n.open(&found[nic])
}

// OpenDevice opens a device by its place among all devices of this host, in the order of Devices, and by a port, or its
// first port with a link if port is not positive.
func (n *Net) OpenDevice(index, port int) (*Port, error) {
	names := Devices()
	if index < 0 || index >= len(names) {
		return nil, fmt.Errorf("ib: adapter %d: this host has %d (%s): %w", index, len(names), strings.Join(names, ", "),
			unusable(n.opt.IB))
	}
	ports := system.adapters(names[index])
	for i := range ports {
		if a := &ports[i]; a.active && (port <= 0 || a.port == port) {
			return n.open(a)
		}
	}
	return nil, fmt.Errorf("ib: adapter %s (%d ports): port %d has no link: see `rdma link`", names[index], len(ports),
		port)
}

// Devices returns the names of this host's RDMA devices, mlx5_2 before mlx5_10. IB0 of primitives is the first.
func Devices() []string { return system.devices() }

// unusable says why there is no adapter.
func unusable(opt setting.IB) error {
	if err := verbs.Load(); err != nil {
		return err
	}
	switch {
	case opt.Disabled:
		return fmt.Errorf("%w: GOCCL_IB_DISABLE (NCCL_IB_DISABLE) is set", ErrUnavailable)
	case len(Devices()) == 0:
		return fmt.Errorf("%w: /sys/class/infiniband lists no adapter", ErrUnavailable)
	}
	return fmt.Errorf("%w: no port has a link, or GOCCL_IB_HCA (NCCL_IB_HCA) %q leaves none", ErrUnavailable,
		opt.Adapters)
}

// deviceMemory reports whether GPU memory can probably be registered: Register finds out.
func deviceMemory(dev string) bool {
	if !strings.HasPrefix(dev, "mlx5") && !strings.HasPrefix(dev, "bnxt") && !strings.HasPrefix(dev, "irdma") {
		return false
	}
	_, gpu := os.Stat("/proc/driver/nvidia/version")
	return gpu == nil
}

// filter is GOCCL_IB_HCA or NCCL_IB_HCA: "mlx5_0:1,mlx5_2", "^mlx5_3", "=mlx5_1", "^=mlx5_1".
type filter struct {
	avoid, exact bool
	entries      []entry
}

type entry struct {
	name string
	port int // 0: every port
}

func parseFilter(spec string) (f filter) {
	spec, f.avoid = strings.CutPrefix(strings.TrimSpace(spec), "^")
	spec, f.exact = strings.CutPrefix(strings.TrimSpace(spec), "=")
	for s := range strings.SplitSeq(spec, ",") {
		name, port, _ := strings.Cut(strings.TrimSpace(s), ":")
		if name == "" {
			continue
		}
		n, _ := strconv.Atoi(port)
		f.entries = append(f.entries, entry{name, n})
	}
	return f
}

func (f filter) match(device string, port int) bool {
	if len(f.entries) == 0 {
		return true
	}
	hit := slices.ContainsFunc(f.entries, func(e entry) bool {
		return (device == e.name || !f.exact && strings.HasPrefix(device, e.name)) && (e.port == 0 || e.port == port)
	})
	return hit != f.avoid
}
