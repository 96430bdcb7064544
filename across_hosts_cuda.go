package goccl

import (
	"context"
	"errors"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/hosts"
	"github.com/goccl/goccl/engine/hosts/cudawire"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/ipc"
)

// acrossHostsOfGPUs makes the engine of a communicator of GPUs of several hosts.
func (c *Comm) acrossHostsOfGPUs(ctx context.Context, net transport.Net, nic int, why string) (collective.Engine,
	error) {
	inside := nvlink.Config{Device: c.dev, Name: c.cfg.Name, Settings: c.cfg.settings, Timeout: c.cfg.Timeout,
		OpTimeout: c.cfg.OpTimeout, StallWarning: c.cfg.settings.StallWarning, SeparateGraphs: c.cfg.SeparateGraphs,
		UnorderedCaptures: c.cfg.UnorderedCaptures}
	var err error
	// Containers of one machine that share no memory count as separate hosts. They may still use the same GPU, and the
	// kernels of all ranks on a GPU wait for each other.
	gpu := ipc.Machine() + " " + c.dev.(*cuda.Device).Properties().BusID
	if inside.Sharing, err = bootstrap.MostAlike(ctx, c.boot, gpu); err != nil {
		return nil, err
	}
	crowd, err := bootstrap.MostAlike(ctx, c.boot, string(ipc.ProcessID[:])+gpu) // ranks of a process on a GPU
	if err != nil {
		return nil, err
	}
	order, err := hosts.NewCUDAOrder(c.dev.(*cuda.Device), inside.GraphOrder())
	if err != nil {
		return nil, err
	}
	overlaps, blocks := false, 0
	e, err := hosts.New(ctx, hosts.Config{Bootstrap: c.boot, Device: c.dev, Name: c.cfg.Name, Network: why,
		NetworkName: net.Name(), Tuning: c.cfg.settings.Tuning, Algorithms: c.cfg.settings.Algorithms,
		Order: order, Explain: c.explainLate, OnFailure: c.failAlone, Crowded: hosts.Crowded(crowd),
		Local: func(ctx context.Context, boot bootstrap.Bootstrap, names []int, failed func(error)) (
			collective.Engine, error,
		) {
			inside.Bootstrap, inside.Names, inside.OnFailure = boot, names, failed
			e, err := nvlink.New(ctx, inside)
			if err == nil {
				overlaps, blocks = e.Overlaps(), e.Room()
			}
			if blocks == 0 && inside.Sharing > 1 { // one rank of this host, but others on the same GPU
				blocks = c.dev.(*cuda.Device).Properties().SMs / inside.Sharing
			}
			return e, err
		},
		Wire: func(_ int, failed func(error)) (wire.Wire, error) {
			if most := int(c.cfg.settings.MaxCTAs); most > 0 && (blocks == 0 || most < blocks) {
				blocks = most
			}
			return cudawire.New(cudawire.Config{Bootstrap: c.boot, Device: c.dev, Net: net, NIC: nic,
				Timeout: c.cfg.Timeout, OpTimeout: c.cfg.OpTimeout, StallWarning: c.cfg.settings.StallWarning,
				Name: c.cfg.Name, Graphs: inside.GraphOrder(),
				Blocks: blocks, Overlap: overlaps, OnFailure: failed})
		}})
	if err != nil {
		return nil, errors.Join(err, order.Close())
	}
	c.order = order.Order
	return e, nil
}
