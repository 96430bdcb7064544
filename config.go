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

// Config is the configuration of one rank of a communicator.
type Config struct {
	// Bootstrap connects the ranks; it must be initialised. The Comm makes its own group from it and does not close it.
	Bootstrap bootstrap.Bootstrap
	// Device is where this rank's buffers and streams live. All ranks must use the same kind of device.
	Device device.Device
	// Timeout bounds set-up, Split and Shrink. 0 means 30 s.
	Timeout time.Duration
	// OpTimeout, when positive, is how long a collective may wait for its peers before it fails with ErrTimeout. 0
	// means GOCCL_OP_TIMEOUT (a Go duration, or seconds); without that, or when negative, only the death of a peer or
	// Abort ends a wait.
	OpTimeout time.Duration
	// Check makes the ranks compare their calls before every operation, so that every rank gets ErrMismatch before data
	// is touched. Calls then wait for their peers' calls and cost a round trip through the Bootstrap: use it for
	// debugging. If one rank sets it, it is on for all ranks. GOCCL_CHECK=1 sets it.
	Check bool
	// SeparateGraphs disables the ordering of CUDA graph launches that contain operations of this communicator,
	// relative to each other and to operations outside of graphs. Work within one graph keeps its order. This saves two
	// nodes in each graph, and a wait and a record around each eager operation after the first capture. The caller must
	// then use streams and events to keep such launches from running at the same time. NCCL_GRAPH_MIXING_SUPPORT=0 sets
	// it.
	SeparateGraphs bool
	// Name appears in logs and errors.
	Name string

	stallWarning time.Duration // how long an operation waits before a warning is logged; 0: never warn
}

const (
	defaultTimeout      = 30 * time.Second
	defaultStallWarning = 30 * time.Second
)

// fill sets defaults for unset fields.
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
