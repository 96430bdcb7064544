package goccl

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/setting"
)

// Config says who this rank is and what it runs on.
type Config struct {
	// Bootstrap joins the ranks; it must be initialised. The Comm talks on a group of its own made from it and does not close it.
	Bootstrap bootstrap.Bootstrap
	// Device is where this rank's buffers and streams live. All ranks must use the same kind of device.
	Device device.Device
	// Timeout bounds set-up, Split and Shrink. 0 means 30 s.
	Timeout time.Duration
	// OpTimeout, when positive, is how long a collective may wait for its peers before it fails with ErrTimeout. 0 means GOCCL_OP_TIMEOUT
	// (a Go duration, or seconds); without that, or when negative, only the death of a peer or Abort ends a wait.
	OpTimeout time.Duration
	// Check makes the ranks compare what they are about to do before every operation, so that a mismatch is ErrMismatch on every rank
	// before data is touched. Calls then wait for their peers' and cost a round through the Bootstrap: it is for finding mistakes. It is on
	// for all ranks when it is for one. GOCCL_CHECK=1 sets it.
	Check bool
	// SeparateGraphs gives up the order of launches of CUDA graphs that hold operations of this communicator: graphs among each other, and with
	// operations outside of graphs. Work in one graph keeps its order. Two nodes of each graph, and a wait and a record around each eager operation once
	// something was captured, are saved; whoever sets it makes sure by streams and events that no two run at once. NCCL_GRAPH_MIXING_SUPPORT=0 sets it.
	SeparateGraphs bool
	// Name appears in logs and errors.
	Name string

	stallWarning time.Duration // how long an operation waits before that is logged; 0: for ever
}

const (
	defaultTimeout      = 30 * time.Second
	defaultStallWarning = 30 * time.Second
)

// fill puts defaults for what is not set.
func (cfg *Config) fill() error {
	if cfg.Bootstrap == nil || cfg.Device == nil {
		return fmt.Errorf("goccl: NewComm: %w: Config needs a Bootstrap and a Device", ErrInvalidArgument)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.OpTimeout == 0 {
		var err error
		if cfg.OpTimeout, err = setting.Duration("GOCCL_OP_TIMEOUT", 0); err != nil {
			return fmt.Errorf("goccl: NewComm: %w: %w", ErrInvalidArgument, err)
		}
	}
	cfg.OpTimeout = max(0, cfg.OpTimeout)
	var err error
	if cfg.stallWarning, err = setting.Duration("GOCCL_STALL_WARNING", defaultStallWarning); err != nil {
		return fmt.Errorf("goccl: NewComm: %w: %w", ErrInvalidArgument, err)
	}
	if s := os.Getenv("GOCCL_CHECK"); s != "" && !cfg.Check {
		on, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("goccl: NewComm: %w: GOCCL_CHECK=%q: want 1 or 0", ErrInvalidArgument, s)
		}
		cfg.Check = on
	}
	if os.Getenv("NCCL_GRAPH_MIXING_SUPPORT") == "0" {
		cfg.SeparateGraphs = true
	}
	return nil
}
