package ib

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccl/goccl/internal/sysfile"
)

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
