package goccl

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/engine/hosts"
	"github.com/goccl/goccl/engine/hosts/hostwire"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/engine/shm"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport/choice"
)

// acrossHosts makes the engine of a communicator with ranks on several hosts: local is the engine of this host's ranks.
func (c *Comm) acrossHosts(ctx context.Context) (collective.Engine, error) {
	chosen, err := choice.Make(ctx, choice.Config{Bootstrap: c.boot, Device: c.dev, Settings: c.cfg.settings,
		Timeout: c.cfg.Timeout, Net: c.cfg.Net})
	if errors.Is(err, choice.ErrNone) {
		err = fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err != nil {
		return nil, err
	}
	net, nic, why := chosen.Net, chosen.NIC, chosen.Why
	c.net, c.nic = net, nic
	if c.dev.ID().Kind == device.CUDA {
		return c.acrossHostsOfGPUs(ctx, net, nic, why)
	}
	bounds := shm.Bounds{Dev: c.dev.(*host.Device)}
	return hosts.New(ctx, hosts.Config{Bootstrap: c.boot, Device: c.dev, Name: c.cfg.Name, Network: why,
		NetworkName: net.Name(), Tuning: c.cfg.settings.Tuning, Algorithms: c.cfg.settings.Algorithms,
		Order: &hosts.HostOrder{}, OnFailure: c.failAlone,
		Check: func(seq uint64, reqs []collective.Request) error { return bounds.Check(c.rank, c.size, seq, reqs) },
		Local: func(ctx context.Context, boot bootstrap.Bootstrap, names []int, failed func(error)) (
			collective.Engine, error,
		) {
			return shm.New(ctx, shm.Config{Bootstrap: boot, Device: c.dev, OpTimeout: c.cfg.OpTimeout,
				StallWarning: c.cfg.settings.StallWarning, Name: c.cfg.Name, Algorithms: c.cfg.settings.Algorithms, Names: names,
				Explain: c.explainLate, OnFailure: failed})
		},
		Wire: func(peers int, failed func(error)) (wire.Wire, error) {
			return hostwire.New(hostwire.Config{Bootstrap: c.boot, Net: net, NIC: nic, Peers: peers,
				Timeout: c.cfg.Timeout, OpTimeout: c.cfg.OpTimeout, StallWarning: c.cfg.settings.StallWarning,
				Name: c.cfg.Name, Explain: c.explainLate, OnFailure: failed})
		}})
}

// overNetwork makes the engine of a communicator of one host whose ranks share no memory: the network connects them.
// From here on each rank counts as a separate host.
func (c *Comm) overNetwork(ctx context.Context) error {
	c.boot = bootstrap.Apart(c.boot)
	e, err := c.acrossHosts(ctx)
	if err == nil {
		c.engine = e
	}
	return err
}

// NetworkName returns the name of the network that carries messages between hosts: "tcp", "ib", or a plugin's name. It
// is "" if all ranks are on one host.
func (c *Comm) NetworkName() string {
	if c.net == nil {
		return ""
	}
	return c.net.Name()
}
