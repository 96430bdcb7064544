package core

import (
	"slices"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/dsl"
	"github.com/goccl/goccl/internal/driver/nvrtc"
	"github.com/goccl/goccl/primitive"
)

type kind = struct {
	err error
	r   Result
}

// The errors of primitives, programs and run-time compilation join those of communicators; deaths come before all that they may have caused.
func init() {
	kinds = slices.Concat([]kind{{errInProgress, InProgress}, {primitive.ErrPeerDead, PeerDead}}, kinds, []kind{
		{primitive.ErrTimeout, Timeout},
		{primitive.ErrUnsupported, Unsupported},
		{nvrtc.ErrUnavailable, Unsupported},
		{device.ErrNotShareable, InvalidArgument},
		{primitive.ErrInvalid, InvalidArgument},
		{dsl.ErrSpec, InvalidArgument},
		{dsl.ErrRange, InvalidArgument},
		{dsl.ErrMismatch, InvalidArgument},
		{dsl.ErrPairing, InvalidArgument},
		{dsl.ErrAssignment, InvalidArgument},
		{dsl.ErrLimit, InvalidArgument},
		{dsl.ErrUsage, InvalidArgument},
		{primitive.ErrAborted, Aborted},
		{primitive.ErrClosed, Closed},
	})
}

// wrong says that an error is the caller's, and leaves its text as it is.
func wrong(err error) error {
	if err == nil {
		return nil
	}
	return wrongArgument{err}
}

type wrongArgument struct{ error }

func (e wrongArgument) Unwrap() []error { return []error{e.error, ErrInvalidArgument} }
