//go:build !cgo || !linux

package driver

import "fmt"

var errNoCgo = fmt.Errorf("%w: this program was built without cgo (CGO_ENABLED=0) or not for Linux; build it with "+
	"CGO_ENABLED=1 and a C compiler to use GPUs", ErrNoDriver)

func open() error { return errNoCgo }

func call(op, Context, *args, *byte, *byte) error { return errNoCgo }

// LaunchInOrder launches nothing: without cgo it fails.
func (c Context) LaunchInOrder(Function, *LaunchConfig, Stream, []byte, *Order) error {
	return errNoCgo
}

// ContextFunctions returns the addresses of cuCtxGetCurrent and cuCtxSetCurrent; without cgo it fails.
func ContextFunctions() (get, set uintptr, err error) { return 0, 0, errNoCgo }
