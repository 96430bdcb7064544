package nvlink

import (
	"io"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
)

const defaultWindowWait = 10 * time.Second

// waitLimit is how long an operation waits for its peers' windows: the limit of calls that wait for other ranks, but
// not longer than the limit of operations.
func waitLimit(cfg *Config) time.Duration {
	limit := cfg.Timeout
	if limit <= 0 {
		limit = defaultWindowWait
	}
	if cfg.OpTimeout > 0 {
		limit = min(limit, cfg.OpTimeout)
	}
	return limit
}

// RegisterWindow implements collective.Engine. Copy engines write into the windows: copy_engine.go.
func (e *Engine) RegisterWindow(p device.Ptr, size int64) (io.Closer, error) {
	if e.windows == nil {
		return e.Plain.RegisterWindow(p, size)
	}
	if e.side == nil {
		var err error
		if e.side, err = e.dev.NewSide(); err != nil {
			return nil, err
		}
	}
	w, err := e.windows.Register(p, size)
	if err != nil {
		return nil, bootstrap.Kind(err)
	}
	return w, nil
}

// Reaches reports whether kernels of every rank can address the memory of all ranks, and map it at chosen addresses.
func (e *Engine) Reaches() bool { return e.gpu.Link < HostMemory && e.dev.Properties().VMM }

// Atomics reports whether atomic operations of kernels reach the memory of all ranks: over PCIe only loads and stores
// do.
func (e *Engine) Atomics() bool { return e.gpu.Link == NVLink }
