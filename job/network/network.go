// Package network chooses the network between the hosts of a job.
//
//  1. Every rank looks for the networks that it has, and for the adapter of each that is nearest to its device.
//  2. The ranks exchange these lists.
//  3. All of them take the first network that all have.
//  4. Interfaces of TCP are tried, where a host has several (interfaces.go).
//
// # Lifetime and threads
//
// Choose is collective and keeps nothing. The networks are opened by their own packages when a Port is.
package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/netif"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/topo"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/ib"
	"github.com/goccl/goccl/transport/plugin"
	"github.com/goccl/goccl/transport/tcp"
)

// ErrNone is the error of ranks that have no network in common.
var ErrNone = errors.New("no common network")

// Config names the rank for which a network is chosen.
type Config struct {
	Bootstrap bootstrap.Bootstrap
	Device    device.Device
	Settings  *setting.Config
	// Timeout bounds what a network waits for in its set-up.
	Timeout time.Duration
	// Net, if it is not nil, is the network. All ranks have the same.
	Net transport.Net
}

// Choice is the network between hosts, and this rank's adapter.
type Choice struct {
	Net transport.Net
	NIC int
	// Why names both, and the reason, for the log.
	Why string
}

// offer is a network that a rank has, or why it has none of this kind. Ranks exchange theirs and use the
// first one that all have.
type offer struct {
	Kind string // kindPlugin, kindIB, kindTCP
	Name string // what the network calls itself: all ranks must have the same plugin
	NIC  string // "": the rank has none
	Why  string // why it has none

	net transport.Net
	nic int
}

// The kinds of networks, the preferred first.
const (
	kindPlugin = "plugin"
	kindIB     = "ib"
	kindTCP    = "tcp"
)

// offers is the message of one rank.
type offers struct {
	Forced string // GOCCL_NET, or NCCL_NET
	Offers []offer
	// Interfaces are TCP's.
	Interfaces []netif.NIC
}

// Choose chooses. It is collective.
func Choose(ctx context.Context, c Config) (*Choice, error) {
	if c.Net != nil {
		o := c.offer("", func() (transport.Net, error) { return c.Net, nil })
		if o.NIC == "" {
			return nil, fmt.Errorf("%w: ranks are on several hosts, and this host has no adapter of the network %q: %s", ErrNone,
				c.Net.Name(), o.Why)
		}
		return &Choice{o.net, o.nic, o.Name + " " + o.NIC}, nil
	}
	mine := c.offers(c.Settings)
	ranks, err := bootstrap.GatherJSON(ctx, c.Bootstrap.AllGather, "networks", mine)
	if err != nil {
		return nil, err
	}
	kind, why, err := choose(ranks)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	i := slices.IndexFunc(mine.Offers, func(o offer) bool { return o.Kind == kind })
	o := &mine.Offers[i]
	if kind == kindTCP {
		var note string
		if o, note, err = c.interfaces(ctx, ranks); err != nil {
			return nil, err
		}
		why += note
	}
	return &Choice{o.net, o.nic, strings.TrimSpace(o.Name + " " + o.NIC + why)}, nil
}

// offers looks for every kind of network.
func (c *Config) offers(cfg *setting.Config) offers {
	nics, _ := netif.NICs(cfg.Interface, cfg.Family) // the offer of TCP has the error
	return offers{Forced: cfg.Net, Interfaces: nics, Offers: []offer{
		c.offer(kindPlugin, func() (transport.Net, error) {
			n, err := plugin.Open(cfg.NetPlugin, plugin.Options{Timeout: c.Timeout})
			if err != nil && cfg.NetPlugin != "" && cfg.NetPlugin != "none" && bootstrap.LocalRank(c.Bootstrap) == 0 {
				slog.Warn("goccl: the network plugin that NCCL_NET_PLUGIN names is not used", "error", err)
			}
			return n, err
		}),
		c.offer(kindIB, func() (transport.Net, error) { return ib.New(ib.Options{IB: cfg.IB}), nil }),
		c.offer(kindTCP, func() (transport.Net, error) { return tcp.Configured(cfg, c.Timeout), nil }),
	}}
}

// offer looks for a network's adapters. Ranks of one host take in turn those that are nearest to their devices.
func (c *Config) offer(kind string, open func() (transport.Net, error)) offer {
	o := offer{Kind: kind, Name: kind}
	n, err := open()
	if err != nil {
		o.Why = err.Error()
		return o
	}
	o.Name, o.net = n.Name(), n
	nics, err := n.NICs()
	switch {
	case err != nil:
		o.Why = err.Error()
	case len(nics) == 0:
		o.Why = "no adapter"
	default:
		places := make([]string, len(nics))
		for i := range nics {
			places[i] = nics[i].PCI
		}
		nearest := topo.Nearest(c.busID(), places)
		o.nic = nearest[bootstrap.LocalRank(c.Bootstrap)%len(nearest)]
		o.NIC = nics[o.nic].Name
	}
	return o
}

// busID returns the PCI address of this rank's GPU; "" on the host device, which is equally near to all adapters.
func (c *Config) busID() string {
	if gpu, ok := c.Device.(*cuda.Device); ok {
		return gpu.Properties().BusID
	}
	return ""
}

// choose returns the first kind that all ranks have, and, after ": ", why it is not a better one. Every rank
// gets the same result.
func choose(ranks []offers) (kind, why string, err error) {
	forced := ranks[0].Forced
	for r := range ranks {
		if ranks[r].Forced != forced {
			return "", "", fmt.Errorf("GOCCL_NET (NCCL_NET) is %q on rank 0 and %q on rank %d: set the same on every rank",
				forced, ranks[r].Forced, r)
		}
	}
	var errs []error
	for i := range ranks[0].Offers {
		o := &ranks[0].Offers[i]
		if forced != "" && !o.is(forced) {
			continue
		}
		lacking := lacks(ranks, i)
		if lacking == nil {
			if len(errs) > 0 {
				why = ": " + errors.Join(errs...).Error()
			}
			return o.Kind, strings.ReplaceAll(why, "\n", "; "), nil
		}
		found := slices.ContainsFunc(ranks, func(r offers) bool { return r.Offers[i].NIC != "" })
		if forced != "" || o.Kind == kindTCP || found {
			errs = append(errs, lacking) // a network that no rank has needs no message
		}
	}
	if len(errs) == 0 {
		return "", "", unknown(forced, ranks[0].Offers[0].Name)
	}
	return "", "", fmt.Errorf("ranks are on several hosts without a common network: %w", errors.Join(errs...))
}

// Unknown returns an error for a value of GOCCL_NET that names no network. Ranks of one host do not choose a network.
func Unknown(cfg *setting.Config) error {
	for _, o := range []offer{{}, {Kind: kindPlugin}, {Kind: kindIB}, {Kind: kindTCP}} {
		if o.is(cfg.Net) {
			return nil
		}
	}
	o := offer{Name: kindPlugin}
	if n, err := plugin.Open(cfg.NetPlugin, plugin.Options{}); err == nil {
		if o.Name = n.Name(); o.is(cfg.Net) {
			return nil
		}
	}
	return unknown(cfg.Net, o.Name)
}

func unknown(forced, plugin string) error {
	return fmt.Errorf("GOCCL_NET (NCCL_NET) is %q: want tcp, ib, or the name of the plugin, %q here", forced, plugin)
}

// is reports whether a value of GOCCL_NET means the network. NCCL calls TCP "Socket".
func (o *offer) is(name string) bool {
	return strings.EqualFold(o.Kind, name) || strings.EqualFold(o.Name, name) ||
		o.Kind == kindTCP && strings.EqualFold(name, "Socket")
}

// lacks returns which rank lacks network i, or nil.
func lacks(ranks []offers, i int) error {
	for r := range ranks {
		o := &ranks[r].Offers[i]
		switch {
		case o.NIC == "":
			return fmt.Errorf("no %s on rank %d (%s)", o.Kind, r, o.Why)
		case o.Name != ranks[0].Offers[i].Name:
			return fmt.Errorf("%s is %q on rank %d and %q on rank 0", o.Kind, o.Name, r, ranks[0].Offers[i].Name)
		}
	}
	return nil
}
