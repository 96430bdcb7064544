package goccl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/topo"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/ib"
	"github.com/goccl/goccl/transport/plugin"
	"github.com/goccl/goccl/transport/tcp"
)

// networkOffer is a network that a rank has, or why it has none of this kind. Ranks tell each other theirs and use the
// first one that all have.
type networkOffer struct {
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

// networkOffers is what one rank tells.
type networkOffers struct {
	Forced string // GOCCL_NET, or NCCL_NET
	Offers []networkOffer
}

// network chooses the network between hosts and this rank's adapter. why names both and the reason, for the log.
func (c *Comm) network(ctx context.Context) (net transport.Net, nic int, why string, err error) {
	if c.cfg.Net != nil {
		o := c.offer("", func() (transport.Net, error) { return c.cfg.Net, nil })
		if o.NIC == "" {
			return nil, 0, "", fmt.Errorf("%w: ranks are on several hosts, and this host has no adapter of the network %q: %s",
				ErrUnsupported, c.cfg.Net.Name(), o.Why)
		}
		return o.net, o.nic, o.Name + " " + o.NIC, nil
	}
	mine := c.networkOffers(c.cfg.settings)
	b, err := json.Marshal(&mine)
	if err != nil {
		return nil, 0, "", err
	}
	all, err := c.boot.AllGather(ctx, b)
	if err != nil {
		return nil, 0, "", err
	}
	ranks := make([]networkOffers, len(all))
	for r, b := range all {
		if err := json.Unmarshal(b, &ranks[r]); err != nil {
			return nil, 0, "", fmt.Errorf("networks of rank %d: %w", r, err)
		}
	}
	kind, why, err := chooseNetwork(ranks)
	if err != nil {
		return nil, 0, "", fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	i := slices.IndexFunc(mine.Offers, func(o networkOffer) bool { return o.Kind == kind })
	o := &mine.Offers[i]
	return o.net, o.nic, strings.TrimSpace(o.Name + " " + o.NIC + why), nil
}

// networkOffers looks for every kind of network.
func (c *Comm) networkOffers(cfg *setting.Config) networkOffers {
	return networkOffers{Forced: cfg.Net, Offers: []networkOffer{
		c.offer(kindPlugin, func() (transport.Net, error) {
			return plugin.Open(cfg.NetPlugin, plugin.Options{Timeout: c.cfg.Timeout})
		}),
		c.offer(kindIB, func() (transport.Net, error) { return ib.New(ib.Options{IB: cfg.IB}), nil }),
		c.offer(kindTCP, func() (transport.Net, error) { return tcp.Configured(cfg, c.cfg.Timeout), nil }),
	}}
}

// offer looks for a network's adapters. Ranks of one host take in turn those that are nearest to their devices.
func (c *Comm) offer(kind string, open func() (transport.Net, error)) networkOffer {
	o := networkOffer{Kind: kind, Name: kind}
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
		near := topo.Nearest(c.busID(), paths(nics))
		o.nic = near[bootstrap.LocalRank(c.boot)%len(near)]
		o.NIC = nics[o.nic].Name
	}
	return o
}

// busID returns the PCI address of this rank's GPU; "" on the host device, which is equally near to all adapters.
func (c *Comm) busID() string {
	if gpu, ok := c.dev.(*cuda.Device); ok {
		return gpu.Properties().BusID
	}
	return ""
}

func paths(nics []transport.NIC) []string {
	all := make([]string, len(nics))
	for i := range nics {
		all[i] = nics[i].PCI
	}
	return all
}

// chooseNetwork returns the first kind that all ranks have, and, after ": ", why it is not a better one. Every rank
// gets the same result.
func chooseNetwork(ranks []networkOffers) (kind, why string, err error) {
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
		if forced != "" || o.Kind == kindTCP || rankHas(ranks, i) {
			errs = append(errs, lacking) // a network that nobody has needs no word
		}
	}
	if len(errs) == 0 {
		return "", "", fmt.Errorf("GOCCL_NET (NCCL_NET) is %q: want tcp, ib, or the name of the plugin, %q here", forced,
			ranks[0].Offers[0].Name)
	}
	return "", "", fmt.Errorf("ranks are on several hosts without a common network: %w", errors.Join(errs...))
}

// is reports whether a value of GOCCL_NET means the network. NCCL calls TCP "Socket".
func (o *networkOffer) is(name string) bool {
	return strings.EqualFold(o.Kind, name) || strings.EqualFold(o.Name, name) ||
		o.Kind == kindTCP && strings.EqualFold(name, "Socket")
}

// lacks returns which rank lacks network i, or nil.
func lacks(ranks []networkOffers, i int) error {
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

func rankHas(ranks []networkOffers, i int) bool {
	return slices.ContainsFunc(ranks, func(r networkOffers) bool { return r.Offers[i].NIC != "" })
}
