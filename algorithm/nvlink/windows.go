package nvlink

import (
	"errors"
	"io"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/share"
)

// windows are the user's windows, into which copy engines write (copy_engine.go).
type windows struct {
	*share.Windows
	copies copyMode   // not copyNever
	side   *cuda.Side // for own slices; made with the first window
}

const (
	windowTag         = 4 // tag of bootstrap messages; the communicator uses 0 to 2
	defaultWindowWait = 10 * time.Second
)

// newWindows is called if no rank has disabled copy engines.
func newWindows(dev *cuda.Device, boot bootstrap.Bootstrap, copies copyMode, limit time.Duration) *windows {
	return &windows{Windows: share.NewWindows(boot, windowTag, dev, limit), copies: copies}
}

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

// nothing is the window of an engine that does not use windows.
type nothing struct{}

func (nothing) Close() error { return nil }

var _ algorithm.Windower = (*Engine)(nil)

// RegisterWindow implements algorithm.Windower.
func (e *Engine) RegisterWindow(p device.Ptr, size int64) (io.Closer, error) {
	g := e.windows
	if g == nil {
		return nothing{}, nil
	}
	if g.side == nil {
		var err error
		if g.side, err = e.dev.NewSide(); err != nil {
			return nil, err
		}
	}
	w, err := g.Register(p, size)
	if err != nil {
		return nil, algorithm.Kind(err)
	}
	return w, nil
}

// close ends all windows. No work may run any more. close, abandon and halt accept a nil receiver.
func (g *windows) close() error {
	if g == nil {
		return nil
	}
	err := g.Close()
	if g.side != nil {
		err = errors.Join(err, g.side.Close())
	}
	return err
}

// abandon ends waits for windows.
func (g *windows) abandon() {
	if g != nil {
		g.Abandon()
	}
}

// halt stops the windows' background work; the mappings stay.
func (g *windows) halt() {
	if g != nil {
		g.Halt()
	}
}
