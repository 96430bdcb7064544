package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/engine/shm"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/watch/record"
)

// Config configures the engine of a communicator.
type Config struct {
	collective.Job
	// Net is the network between hosts; nil: the best that there is.
	Net transport.Net
	// Record is where an engine that sees the start and end of its work writes them; nil: nowhere.
	Record *record.Recorder
	// ExplainLate takes the place of Explain across hosts, where a rank that another one waits for may wait itself, with
	// the same deadline.
	ExplainLate func(err *collective.Error) *fault.Verdict
}

// Made is an engine, and what other work of the communicator needs of it.
type Made struct {
	collective.Engine
	// Bootstrap is the job's. Where ranks of one host share no memory, each of them counts as a host in it.
	Bootstrap bootstrap.Bootstrap
	Net       transport.Net // to ranks of other hosts; nil if there are none
	NIC       int           // this rank's adapter of Net
	Order     *cuda.Order   // the order of the engine's work on a GPU; nil on the host device
	Kind      string        // for records, see package record
}

// EngineOfHost is the Kind of the engine of one host's memory. It records its work by itself.
const EngineOfHost = "shm"

// New makes the engine that fits the device and the hosts of the ranks. It is collective.
func New(ctx context.Context, cfg Config) (*Made, error) {
	other, _ := bootstrap.OtherHost(cfg.Bootstrap)
	kind := cfg.Device.ID().Kind
	switch {
	case kind != device.Host && kind != device.CUDA:
		return nil, fmt.Errorf("%w: device %v", collective.ErrUnsupported, cfg.Device.ID())
	case other >= 0:
		return acrossHosts(ctx, &cfg)
	case kind == device.Host:
		job := cfg.Job
		job.OnFailure = nil // peers see it
		e, err := shm.New(ctx, shm.Config{Job: job, Record: cfg.Record})
		return &Made{Engine: e, Bootstrap: cfg.Bootstrap, Kind: EngineOfHost}, err
	}
	e, err := nvlink.New(ctx, nvlink.Config{Job: cfg.Job})
	if errors.Is(err, nvlink.ErrNetwork) { // the ranks share no memory
		cfg.Bootstrap = bootstrap.Apart(cfg.Bootstrap)
		return acrossHosts(ctx, &cfg)
	}
	if err != nil {
		return nil, err
	}
	return &Made{Engine: e, Bootstrap: cfg.Bootstrap, Order: e.Order(), Kind: record.EngineOnGPU}, nil
}
