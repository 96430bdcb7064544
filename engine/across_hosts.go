package engine

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
	"github.com/goccl/goccl/job/network"
	"github.com/goccl/goccl/watch/record"
)

// acrossHosts makes the engine of a communicator with ranks on several hosts: local is the engine of this host's ranks.
func acrossHosts(ctx context.Context, cfg *Config) (m *Made, err error) {
	chosen, err := network.Choose(ctx, network.Config{Bootstrap: cfg.Bootstrap, Device: cfg.Device, Settings: cfg.Settings,
		Timeout: cfg.Timeout, Net: cfg.Net})
	if errors.Is(err, network.ErrNone) {
		err = fmt.Errorf("%w: %w", collective.ErrUnsupported, err)
	}
	if err != nil {
		return nil, err
	}
	m = &Made{Bootstrap: cfg.Bootstrap, Net: chosen.Net, NIC: chosen.NIC, Kind: record.EngineOfHosts}
	job := cfg.Job
	job.Explain = cfg.ExplainLate
	if cfg.Device.ID().Kind == device.CUDA {
		m.Kind = record.EngineOfHostsOnGPUs
		return m, acrossHostsOfGPUs(ctx, job, chosen.Why, m)
	}
	rank, size, bounds := cfg.Bootstrap.Rank(), cfg.Bootstrap.WorldSize(), shm.Bounds{Dev: cfg.Device.(*host.Device)}
	both := job
	both.Explain = nil // its parts explain their errors
	m.Engine, err = hosts.New(ctx, hosts.Config{Job: both, Network: chosen.Why, NetworkName: m.Net.Name(),
		Order: &hosts.HostOrder{},
		Check: func(seq uint64, reqs []collective.Request) error { return bounds.Check(rank, size, seq, reqs) },
		Local: func(ctx context.Context, boot bootstrap.Bootstrap, names []int, failed func(error)) (
			collective.Engine, error,
		) {
			local := job
			local.Bootstrap, local.Names, local.OnFailure = boot, names, failed
			return shm.New(ctx, shm.Config{Job: local})
		},
		Wire: func(peers int, failed func(error)) (wire.Wire, error) {
			remote := job
			remote.OnFailure = failed
			return hostwire.New(hostwire.Config{Job: remote, Net: m.Net, NIC: m.NIC, Peers: peers})
		}})
	return m, err
}
