package driver

import (
	"errors"
	"fmt"
	"strings"
)

// Code is a CUresult.
type Code int32

// The codes that callers distinguish.
const (
	InvalidValue          Code = 1
	OutOfMemory           Code = 2
	Deinitialized         Code = 4
	NoDevice              Code = 100
	InvalidDevice         Code = 101
	InvalidImage          Code = 200
	InvalidContext        Code = 201
	NoBinaryForGPU        Code = 209
	PeerAccessUnsupported Code = 217
	InvalidPTX            Code = 218
	UnsupportedPTXVersion Code = 222
	NotFound              Code = 500
	NotReady              Code = 600
	IllegalAddress        Code = 700
	ContextIsDestroyed    Code = 709
	LaunchFailed          Code = 719
	NotSupported          Code = 801
	Unknown               Code = 999
)

// Error is a driver call that failed.
type Error struct {
	// Call is the failed function of libcuda or NVML, like "cuMemCreate".
	Call string
	Code Code
	// Name and Text are the driver's name and description, like "CUDA_ERROR_OUT_OF_MEMORY" and "out of memory".
	Name, Text string
}

// Error returns a text like "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory".
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Is makes errors.Is(err, &Error{Code: c}) compare the code alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Call == "" || t.Call == e.Call)
}

// IsCode reports whether err is, or wraps, a driver error with that code.
func IsCode(err error, code Code) bool { return err != nil && errors.Is(err, &Error{Code: code}) }

// JITError is an image that the driver refused, with the log of its compiler.
type JITError struct {
	Err *Error
	// Log is the compiler's error log, then its information log. Error prints the first line only, %+v the whole log.
	Log string
}

func (e *JITError) Error() string {
	switch line, _, more := strings.Cut(e.Log, "\n"); {
	case more:
		return e.Err.Error() + ": " + line + " …"
	case line != "":
		return e.Err.Error() + ": " + line
	}
	return e.Err.Error()
}

// Unwrap returns the driver's error.
func (e *JITError) Unwrap() error { return e.Err }

// Format prints the whole log for %+v.
func (e *JITError) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('+') {
		_, _ = fmt.Fprintf(f, "%s\n%s", e.Err.Error(), e.Log)
		return
	}
	_, _ = fmt.Fprint(f, e.Error())
}

var errNotReady = &Error{Call: "query", Code: NotReady, Name: "CUDA_ERROR_NOT_READY", Text: "device not ready"}

// gone turns errors during the driver's shutdown into success: objects are freed when the process exits.
func gone(err error) error {
	if IsCode(err, Deinitialized) || IsCode(err, ContextIsDestroyed) {
		return nil
	}
	return err
}
