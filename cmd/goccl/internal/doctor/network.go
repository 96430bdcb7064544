package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/goccl/goccl/cmd/goccl/internal/query"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/topo"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/plugin"
)

func pluginNet() (transport.Net, error) {
	return plugin.Open(setting.Lenient().NetPlugin, plugin.Options{Timeout: nicLimit})
}

func openPlugin() (text string, ok bool, err error) {
	n, err := pluginNet()
	if err != nil {
		return "", setting.Lenient().NetPlugin != "" && setting.Lenient().NetPlugin != "none", err
	}
	nics, err := n.NICs()
	if err != nil {
		return "", true, err
	}
	names := make([]string, 0, len(nics))
	for i := range nics {
		names = append(names, nics[i].Name)
	}
	return fmt.Sprintf("%s, with the adapters %s", n.Name(), strings.Join(names, ", ")), true, nil
}

// plugin reports the plugin of the network, if one is asked for or found. Its code may hang.
func (s Source) plugin(ctx context.Context, r *report) {
	if s.Plugin == nil {
		return
	}
	r.area = "network"
	type answer struct {
		text string
		ok   bool
	}
	short, cancel := context.WithTimeout(ctx, 2*nicLimit)
	defer cancel()
	a, err := query.Ask(short, func() (answer, error) {
		text, ok, err := s.Plugin()
		return answer{text, ok}, err
	})
	switch {
	case err != nil && (a.ok || short.Err() != nil):
		r.fail("plugin", "name an existing one with NCCL_NET_PLUGIN, add its folder to LD_LIBRARY_PATH, or set "+
			"NCCL_NET_PLUGIN=none", "%v", err)
	case err != nil: // none is asked for, and none is there
	default:
		r.ok("plugin", "%s", a.text)
	}
}

// distances reports which adapter is next to each GPU.
func (s Source) distances(r *report, m *topo.Machine) {
	if !rdma(m) || len(m.GPUs) == 0 {
		return
	}
	r.area = "network"
	var near []string
	for _, g := range m.GPUs {
		nic, ok := m.NearestNIC(g.Index)
		if !ok || g.Index >= len(nic.Paths) {
			continue
		}
		name := cmp.Or(nic.RDMA, nic.Name)
		switch path := nic.Paths[g.Index]; {
		case !nic.Up || path == topo.PathUnknown:
		case path == topo.PathSys:
			r.warn(fmt.Sprintf("GPU %d", g.Index), "put the adapter into a slot of the same processor, or pin the rank to "+
				"it with NCCL_IB_HCA", "its nearest adapter, %s, is at another processor (%v)", name, path)
		default:
			near = append(near, fmt.Sprintf("%d: %s %v", g.Index, name, path))
		}
	}
	if len(near) > 0 {
		r.ok("nearest", "%s", strings.Join(near, ", "))
	}
}

// adapters reports what data really does through each network adapter, in a loop from this host to itself.
func (s Source) adapters(ctx context.Context, r *report) {
	if s.NICs == nil {
		return
	}
	r.area = "network"
	for _, v := range s.NICs(ctx) {
		name := v.Net
		if v.Name != "" {
			name += " " + v.Name
		}
		if v.Error != "" {
			r.fail(name, "jobs of several hosts cannot use it: choose others with GOCCL_SOCKET_IFNAME, or look at the "+
				"adapter with ip link and the firewall with nft list ruleset", "%s", v.Error)
			continue
		}
		text := fmt.Sprintf("all data right in a loop; %.1f µs for 8 bytes, %.3g GB/s", v.Micros, v.GBps)
		if v.Speed > 0 {
			text += fmt.Sprintf(" (the adapter says %.3g; a loop does not pass the wire)", v.Speed)
		}
		if v.DeviceMem {
			text += ", reaches GPU memory"
		}
		r.ok(name, "%s", text)
	}
}
