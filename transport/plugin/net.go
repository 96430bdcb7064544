package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/driver/ncclnet"
	"github.com/goccl/goccl/transport"
)

// Options configures a Net. The zero value is usable.
type Options struct {
	// Timeout bounds Connect if its context does not end earlier; 0 is 30 s.
	Timeout time.Duration
	// Silence is how long a peer may say nothing; 0 is 10 s.
	Silence time.Duration
}

// Net is a plugin. It implements transport.Net.
type Net struct {
	lib *ncclnet.Library
	opt Options
}

// loaded are the libraries of this process: a plugin is initialised once.
var loaded = struct {
	sync.Mutex
	libs map[string]*ncclnet.Library
}{libs: map[string]*ncclnet.Library{}}

// Open loads the plugin that NCCL_NET_PLUGIN names: a file, or the NAME of libnccl-net-NAME.so; "" is libnccl-net.so.
func Open(name string, opt Options) (*Net, error) {
	opt.Timeout = cmp.Or(opt.Timeout, 30*time.Second)
	opt.Silence = cmp.Or(opt.Silence, 10*time.Second)
	if name == "none" {
		return nil, errors.New("plugin: NCCL_NET_PLUGIN=none: no plugin is wanted")
	}
	loaded.Lock()
	defer loaded.Unlock()
	if lib := loaded.libs[name]; lib != nil {
		return &Net{lib, opt}, nil
	}
	var errs []error
	for _, file := range files(name) {
		lib, err := ncclnet.Open(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		loaded.libs[name] = lib
		return &Net{lib, opt}, nil
	}
	return nil, fmt.Errorf("plugin: %q (NCCL_NET_PLUGIN): %w", name, errors.Join(errs...))
}

// files are the names to try.
func files(name string) []string {
	switch {
	case name == "":
		return []string{"libnccl-net.so"}
	case filepath.IsAbs(name), strings.Contains(name, "/"):
		return []string{name}
	case strings.Contains(name, ".so"):
		return []string{name, "libnccl-net-" + name}
	}
	return []string{"libnccl-net-" + name + ".so", name}
}

// Name is the plugin's own name.
func (n *Net) Name() string { return n.lib.Name() }

// Version is the version of the plugin's interface.
func (n *Net) Version() int { return n.lib.Version() }

// NICs lists the plugin's adapters.
func (n *Net) NICs() ([]transport.NIC, error) {
	count, err := n.lib.Devices()
	if err != nil {
		return nil, err
	}
	nics := make([]transport.NIC, count)
	for i := range nics {
		p, err := n.lib.Properties(i)
		if err != nil {
			return nil, err
		}
		nics[i] = transport.NIC{Name: p.Name, PCI: p.PCI, Speed: float64(p.Speed) * 1e6 / 8,
			DeviceMem: p.Memory&ncclnet.CUDA != 0}
	}
	return nics, nil
}

// maxPiece is the longest message. Plugins of NCCL are tuned for its buffers, which are smaller.
const maxPiece = 4 << 20

// Open opens an adapter.
func (n *Net) Open(nic int) (transport.Port, error) {
	count, err := n.lib.Devices()
	if err != nil {
		return nil, err
	}
	if nic < 0 || nic >= count {
		return nil, fmt.Errorf("plugin: open adapter %d: there are %d", nic, count)
	}
	p, err := n.lib.Properties(nic)
	if err != nil {
		return nil, err
	}
	return &Port{net: n, dev: nic, memory: p.Memory, flush: p.Flush, piece: min(p.MaxBytes, maxPiece),
		regions: map[uint64]*region{}, peers: map[*Peer]struct{}{}}, nil
}
