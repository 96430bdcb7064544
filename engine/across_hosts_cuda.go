package engine

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
	"github.com/goccl/goccl/transport/ipc"
)

// acrossHostsOfGPUs makes the engine of a communicator of GPUs of several hosts.
func acrossHostsOfGPUs(ctx context.Context, job collective.Job, why string, m *Made) error {
	inside := nvlink.Config{Job: job}
	inside.Explain = nil // the engine of the hosts explains its parts' errors: that waits for other hosts
	dev := job.Device.(*cuda.Device)
	var err error
	// Containers of a machine that share no memory count as separate hosts, but may have the same GPU, and there the
	// kernels of all ranks wait for each other.
	gpu := ipc.Machine() + " " + dev.Properties().BusID
	if inside.Sharing, err = bootstrap.MostAlike(ctx, job.Bootstrap, gpu); err != nil {
		return err
	}
	crowd, err := bootstrap.MostAlike(ctx, job.Bootstrap, string(ipc.ProcessID[:])+gpu) // ranks of a process on a GPU
	if err != nil {
		return err
	}
	order, err := hosts.NewCUDAOrder(dev, inside.GraphOrder())
	if err != nil {
		return err
	}
	overlaps, blocks := false, 0
	m.Engine, err = hosts.New(ctx, hosts.Config{Job: job, Network: why, NetworkName: m.Net.Name(), Order: order,
		Crowded: hosts.Crowded(crowd),
		Local: func(ctx context.Context, boot bootstrap.Bootstrap, names []int, failed func(error)) (
			collective.Engine, error,
		) {
			inside.Bootstrap, inside.Names, inside.OnFailure = boot, names, failed
			e, err := nvlink.New(ctx, inside)
			if err == nil {
				overlaps, blocks = e.Overlaps(), e.Room()
			}
			if blocks == 0 && inside.Sharing > 1 { // one rank of this host, but others on the same GPU
				blocks = dev.Properties().SMs / inside.Sharing
			}
			return e, err
		},
		Wire: func(_ int, failed func(error)) (wire.Wire, error) {
			if most := int(job.Environment().MaxCTAs); most > 0 && (blocks == 0 || most < blocks) {
				blocks = most
			}
			remote := job
			remote.OnFailure = failed
			return cudawire.New(cudawire.Config{Job: remote, Net: m.Net, NIC: m.NIC, Graphs: inside.GraphOrder(),
				Blocks: blocks, Overlap: overlaps})
		}})
	if err != nil {
		return errors.Join(err, order.Close())
	}
	m.Order = order.Order
	return nil
}
