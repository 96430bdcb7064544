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

// init adds the errors of primitives, programs and run-time compilation to those of communicators. Deaths come first,
// because they may have caused the others.
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

// wrong marks an error as the caller's, without changing its text.
func wrong(err error) error {
	if err == nil {
		return nil
	}
	return wrongArgument{err}
}

type wrongArgument struct{ error }

func (e wrongArgument) Unwrap() []error { return []error{e.error, ErrInvalidArgument} }
