package ib

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
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

// sysfs reads /sys/class/infiniband, or a folder like it.
type sysfs struct{ sysfile.Root }

// devices returns the names of the RDMA devices, mlx5_2 before mlx5_10.
func (s sysfs) devices() []string {
	names := s.Names()
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return names
}

// adapter is one port of an RDMA device.
type adapter struct {
	device    string
	port      int
	active    bool
	roce      bool // Ethernet below
	speed     float64
	pci       string
	firstPort bool // the device has one port only
	sysfs     sysfs
}

// name returns device[:port]; the port only if there are several.
func (a *adapter) name() string {
	if a.firstPort {
		return a.device
	}
	return fmt.Sprintf("%s:%d", a.device, a.port)
}

// adapters lists the ports of a device.
func (s sysfs) adapters(device string) []adapter {
	ports := s.Names(device, "ports")
	slices.Sort(ports)
	var found []adapter
	for _, p := range ports {
		port, err := strconv.Atoi(p)
		if err != nil {
			continue
		}
		dir := filepath.Join(device, "ports", p)
		found = append(found, adapter{device: device, port: port, firstPort: len(ports) == 1, sysfs: s,
			pci: s.Resolve(device, "device"), speed: rate(s.Read(dir, "rate")),
			// "4: ACTIVE", "400 Gb/sec (4X NDR)"
			active: strings.HasPrefix(s.Read(dir, "state"), "4"), roce: s.Read(dir, "link_layer") == "Ethernet"})
	}
	return found
}

// rate parses the file rate, into bytes a second.
func rate(text string) float64 {
	number, unit, _ := strings.Cut(text, " ")
	gbit, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(unit, "Gb/sec") {
		return 0
	}
	return gbit * 1e9 / 8
}

// gid is one row of a port's table of addresses.
type gid struct {
	index int
	addr  netip.Addr // IPv4 as such
	v2    bool       // RoCE v2
}

// gids reads the table from files, for libraries that cannot report it.
func (a *adapter) gids() []gid {
	var table []gid
	s, dir := a.sysfs, filepath.Join(a.device, "ports", strconv.Itoa(a.port))
	for _, name := range s.Names(dir, "gids") {
		index, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		addr, err := netip.ParseAddr(s.Read(dir, "gids", name))
		kind := s.Read(dir, "gid_attrs", "types", name)
		if err != nil || addr.IsUnspecified() || kind == "" { // an unused row has no type
			continue
		}
		table = append(table, gid{index: index, addr: addr.Unmap(), v2: kind == "RoCE v2"})
	}
	slices.SortFunc(table, func(a, b gid) int { return cmp.Compare(a.index, b.index) })
	return table
}

// gidIndex chooses the address by which peers reach the port. wanted is -1, or an index that the user set.
func (a *adapter) gidIndex(table []gid, wanted int) (int, error) {
	if wanted >= 0 {
		if !slices.ContainsFunc(table, func(g gid) bool { return g.index == wanted }) {
			return 0, fmt.Errorf("%s has no address with GOCCL_IB_GID_INDEX (NCCL_IB_GID_INDEX) %d: it has %s", a.name(),
				wanted, addresses(table))
		}
		return wanted, nil
	}
	if !a.roce {
		return 0, nil
	}
	best := slices.MaxFunc(append(slices.Clone(table), gid{index: -1}), func(x, y gid) int {
		return cmp.Or(cmp.Compare(x.worth(), y.worth()), cmp.Compare(y.index, x.index))
	})
	if best.index < 0 {
		return 0, fmt.Errorf("%s has no address: give the Ethernet interface below it an IP address", a.name())
	}
	return best.index, nil
}

// worth orders addresses: RoCE v2 crosses routers, RoCE v1 does not, and a link-local address crosses none.
func (g gid) worth() int {
	switch {
	case g.index < 0:
		return 0
	case !g.v2:
		return 1
	case g.addr.IsLinkLocalUnicast():
		return 2
	case !g.addr.Is4():
		return 3
	}
	return 4
}

func addresses(table []gid) string {
	var list []string
	for _, g := range table {
		list = append(list, fmt.Sprintf("%d (%v)", g.index, g.addr))
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}
