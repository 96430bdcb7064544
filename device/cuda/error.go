package cuda

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

var errSize = errors.New("cuda: invalid size")

// Error is a failed device operation. It wraps the driver's error and, if one fits, an error of package device.
type Error struct {
	Op     string
	Device device.ID
	Err    error
	kind   error
	hint   string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s: %v", e.Device, e.Op, e.Err)
	if e.hint != "" {
		s += " (" + e.hint + ")"
	}
	return s
}

// Unwrap returns the cause and its kind.
func (e *Error) Unwrap() []error {
	if e.kind == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.kind}
}

// fail wraps err; nil stays nil.
func fail(ordinal int, op string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Device: device.ID{Kind: device.CUDA, Index: ordinal}, Err: err}
	switch {
	case driver.IsCode(err, driver.OutOfMemory):
		e.kind, e.hint = device.ErrOutOfMemory, "free memory on the GPU; nvidia-smi lists the processes that hold it"
	case driver.IsCode(err, driver.NoDevice), driver.IsCode(err, driver.InvalidDevice):
		e.kind, e.hint = device.ErrNoDevice, "see CUDA_VISIBLE_DEVICES and goccl doctor"
	case driver.IsCode(err, driver.NotSupported):
		e.kind = device.ErrUnsupported
	case driver.IsCode(err, driver.UnsupportedPTXVersion), driver.IsCode(err, driver.NoBinaryForGPU):
		e.kind, e.hint = device.ErrUnsupported,
			"the image is newer than the driver or not built for this GPU: update the driver"
	case driver.IsCode(err, driver.IllegalAddress), driver.IsCode(err, driver.LaunchFailed):
		e.hint = "a kernel of this process faulted: the context is lost, restart the process"
	case op == "import":
		e.hint = "the exporting process must be alive, on this host, and in the same IPC and PID namespaces"
	}
	return e
}

// failAt is fail of what concerns an address.
func failAt[P ~uint64 | ~uintptr](ordinal int, op string, p P, err error) error {
	if err == nil {
		return nil
	}
	return fail(ordinal, fmt.Sprintf("%s at %#x", op, uintptr(p)), err)
}

// failKind is fail with a given kind and a reason of this package.
func failKind(ordinal int, op string, kind error, format string, v ...any) error {
	return &Error{Op: op, Device: device.ID{Kind: device.CUDA, Index: ordinal},
		Err: fmt.Errorf("%w: "+format, append([]any{kind}, v...)...)}
}
