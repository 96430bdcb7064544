package collective

import (
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
)

// Job is what a communicator gives its engine, and an engine its parts.
type Job struct {
	Bootstrap bootstrap.Bootstrap
	// Device is where the buffers and streams of this rank are. An engine of GPUs needs a *cuda.Device.
	Device device.Device
	// Name is the communicator's, for the log and for errors.
	Name string
	// Names are the numbers of the ranks in errors and in the log; nil: the ranks of Bootstrap.
	Names []int
	// Settings are the settings of the environment. nil: engine/nvlink reads the environment, other engines take no
	// settings.
	Settings *setting.Config
	// Timeout bounds set-up, and the time for which calls wait for other ranks; 0: the engine's default.
	Timeout time.Duration
	// OpTimeout bounds each operation's wait for its peers; 0 is no bound.
	OpTimeout time.Duration
	// StallWarning is how long an operation waits for a peer before a warning is logged; 0 disables the warning.
	StallWarning time.Duration
	// SeparateGraphs disables the order of graph launches among each other and with eager work, UnorderedCaptures also
	// the order of work on several streams of one capture.
	SeparateGraphs, UnorderedCaptures bool
	// Explain, when not nil, gives an operation's error its verdict, and may change the rank that it blames.
	Explain func(err *Error) *fault.Verdict
	// OnFailure, when not nil, is called, from any goroutine, when work of this rank has failed for a reason that its
	// peers may not find out by themselves. It must not block.
	OnFailure func(error)
}

// Environment returns the settings, or none.
func (j *Job) Environment() *setting.Config {
	if j.Settings == nil {
		return &setting.Config{}
	}
	return j.Settings
}
