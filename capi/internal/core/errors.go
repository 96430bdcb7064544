package core

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/driver/nvrtc"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/fdshare"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
	"github.com/goccl/goccl/kernels"
	"github.com/goccl/goccl/plan/dsl"
)

// Result is a goccl_result.
type Result int32

// Errors that this package creates wrap the root package's kinds.
var (
	ErrInvalidArgument = goccl.ErrInvalidArgument
	ErrInvalidUsage    = goccl.ErrInvalidUsage
	errInProgress      = errors.New("work on the communicator is still under way in the background")
)

// panicError is a panic that an export caught.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("panic in goccl, please report it: %v\n%s", e.value, e.stack)
}

// Recovered turns a panic into an error; v is the value of recover.
func Recovered(v any) error { return &panicError{v, debug.Stack()} }

// kinds is searched in this order: the most specific error about peers comes first, because it may have caused the
// others.
var kinds = []struct {
	r    Result
	errs []error
}{
	{InProgress, []error{errInProgress}},
	{PeerDead, []error{goccl.ErrPeerDead}},
	{Mismatch, []error{goccl.ErrMismatch}},
	{SystemError, []error{goccl.ErrCorrupt}},
	{Timeout, []error{goccl.ErrTimeout, context.DeadlineExceeded}},
	{OutOfMemory, []error{device.ErrOutOfMemory}},
	{Unsupported, []error{goccl.ErrUnsupported, device.ErrUnsupported, kernels.ErrNoImage}}, // the GPU is too old
	{InvalidArgument, []error{goccl.ErrInvalidArgument, bootstrap.ErrRankRange, bootstrap.ErrWorldSize}},
	{InvalidUsage, []error{bootstrap.ErrDuplicateRank, goccl.ErrInvalidUsage}},
	// A peer that left took its memory back.
	{Aborted, []error{goccl.ErrAborted, fdshare.ErrRefused, fdshare.ErrGone, context.Canceled}},
	{Closed, []error{goccl.ErrClosed}},
	{CUDAError, []error{device.ErrNoDevice}},
	{SystemError, []error{bootstrap.ErrAuth, bootstrap.ErrProtocol}},
	{Unsupported, []error{nvrtc.ErrUnavailable}},
	{InvalidArgument, []error{device.ErrNotShareable, dsl.ErrSpec, dsl.ErrRange, dsl.ErrMismatch, dsl.ErrPairing,
		dsl.ErrAssignment, dsl.ErrLimit, dsl.ErrUsage}},
}

// wrong marks an error as the caller's, without changing its text.
func wrong(err error) error {
	if err == nil {
		return nil
	}
	return wrongArgument{err}
}

type wrongArgument struct{ error }

func (e wrongArgument) Unwrap() []error { return []error{e.error, ErrInvalidArgument} }

// ResultOf returns the code of an error.
func ResultOf(err error) Result {
	if err == nil {
		return Success
	}
	var p *panicError
	if errors.As(err, &p) {
		return InternalError
	}
	joining := fault.PartOf(err, bootstrap.Part) != nil
	for _, k := range kinds {
		switch {
		case !slices.ContainsFunc(k.errs, func(of error) bool { return errors.Is(err, of) }):
		case k.r == Closed && joining && fault.Of(err) == nil: // a peer has closed
			return PeerDead
		default:
			return k.r
		}
	}
	var ce *cuda.Error
	var errno syscall.Errno
	switch {
	case errors.As(err, &ce):
		return CUDAError
	case errors.As(err, &errno), joining, fault.PartOf(err, share.Part) != nil:
		return SystemError
	}
	return InternalError
}
