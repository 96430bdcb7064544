package tcp

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"github.com/goccl/goccl/internal/netif"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/internal/sysfile"
	"github.com/goccl/goccl/transport"
)

// NetOptions configures a Net. The zero value is usable.
type NetOptions struct {
	// Interface and Family choose the interfaces, as GOCCL_SOCKET_IFNAME and GOCCL_SOCKET_FAMILY do.
	Interface string
	Family    int
	// Sockets is the number of connections that carry the large puts of a peer, beside one for small puts; 0 chooses.
	Sockets int
	// Encrypt encrypts the payloads. The connections are authenticated in any case. One side's wish is enough.
	Encrypt bool
	// Timeout bounds Connect if its context does not end earlier; 0 is 30 s.
	Timeout time.Duration
	// Recovery is how long a lost connection may take to come back, Silence how long a peer's host may acknowledge
	// nothing; 0 is what setting.Unreachable says.
	Recovery, Silence time.Duration
	// Log receives warnings; nil is slog.Default.
	Log *slog.Logger
}

// Net is the network of this host's TCP interfaces. It implements transport.Net.
type Net struct{ opt NetOptions }

// NewNet returns the Net. It opens nothing.
func NewNet(opt NetOptions) *Net {
	if opt.Sockets <= 0 {
		opt.Sockets = max(1, min(8, runtime.NumCPU()/4))
	}
	opt.Timeout = cmp.Or(opt.Timeout, 30*time.Second)
	opt.Recovery = cmp.Or(opt.Recovery, setting.Unreachable(0))
	opt.Silence = cmp.Or(opt.Silence, setting.Unreachable(0))
	opt.Log = cmp.Or(opt.Log, slog.Default())
	return &Net{opt}
}

// Configured returns the Net that the environment describes. timeout is NetOptions.Timeout.
func Configured(cfg *setting.Config, timeout time.Duration) *Net {
	dead := setting.Unreachable(cfg.Blip)
	return NewNet(NetOptions{Interface: cfg.Interface, Family: cfg.Family, Sockets: cfg.NetSockets,
		Encrypt: cfg.NetEncrypt, Timeout: timeout, Recovery: dead, Silence: dead})
}

// Name is "tcp".
func (n *Net) Name() string { return "tcp" }

// NICs lists the interfaces that the options allow, of the best kind that there is: real, virtual, loopback.
func (n *Net) NICs() ([]transport.NIC, error) {
	found, err := netif.NICs(n.opt.Interface, n.opt.Family)
	if err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	nics := make([]transport.NIC, len(found))
	for i, f := range found {
		nics[i] = transport.NIC{Name: f.Name, PCI: pciOf(f.Name),
			Speed: float64(max(0, sysfile.Host.Number(0, "sys/class/net", f.Name, "speed"))) * 1e6 / 8}
	}
	return nics, nil
}

// pciOf returns the path of the interface's PCI device in sysfs, or "".
func pciOf(name string) string {
	if p := sysfile.Host.Resolve("sys/class/net", name, "device"); strings.Contains(p, "/pci") {
		return p
	}
	return ""
}

// Open listens on an interface.
func (n *Net) Open(nic int) (transport.Port, error) {
	found, err := netif.NICs(n.opt.Interface, n.opt.Family)
	if err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	if nic < 0 || nic >= len(found) {
		return nil, fmt.Errorf("tcp: open adapter %d: there are %d", nic, len(found))
	}
	return n.OpenAt(found[nic].Addr)
}

// OpenAt listens on an address of this host.
func (n *Net) OpenAt(at netip.Addr) (*Port, error) {
	l, err := listen(netip.AddrPortFrom(at, 0), n.opt.Timeout, n.opt.Log)
	if err != nil {
		return nil, err
	}
	poller, err := newPoller()
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	p := &Port{opt: n.opt, listener: l, poller: poller, regions: map[uint64]*netRegion{}, peers: map[*Peer]struct{}{},
		stop: make(chan struct{})}
	p.wg.Go(p.watch)
	p.wg.Go(poller.run)
	return p, nil
}
