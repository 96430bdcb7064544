package ncclabi

import (
	"errors"
	"fmt"
)

// Result is an ncclResult_t.
type Result int32

// The results.
const (
	Success            Result = 0
	UnhandledCudaError Result = 1
	SystemError        Result = 2
	InternalError      Result = 3
	InvalidArgument    Result = 4
	InvalidUsage       Result = 5
	RemoteError        Result = 6
	InProgress         Result = 7
	noFunction         Result = -1
	noContext          Result = -2
)

// ErrMissing is a function that the loaded library does not have; ErrUnavailable is a library that cannot be loaded.
var (
	ErrMissing     = errors.New("ncclabi: the library has no such function")
	ErrUnavailable = errors.New("ncclabi: cannot load the library")
)

// Error is a call that failed. Text is the library's name of the result, Last the text of ncclGetLastError.
type Error struct {
	Library, Call string
	Result        Result
	Text, Last    string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s: result %d (%s)", e.Library, e.Call, e.Result, e.Text)
	if e.Last != "" {
		s += ": " + e.Last
	}
	return s
}
