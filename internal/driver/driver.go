package driver

import (
	"errors"
	"fmt"
	"sync"
)

// ErrNoDriver is why Load fails when the library is missing, too old, or not for this build.
var ErrNoDriver = errors.New("driver: no NVIDIA driver library")

var load = sync.OnceValue(func() error {
	if err := open(); err != nil {
		return err
	}
	var a args
	if err := call(opDriverInit, 0, &a, nil, nil); err != nil {
		return fmt.Errorf("driver: the library was found but does not start: %w", err)
	}
	return nil
})

// Load opens and initialises the driver, once per process; later calls return the same result. Every other function of this package
// requires a Load that succeeded.
func Load() error { return load() }

// Version is the CUDA version of the driver: 12080 is 12.8.
func Version() (int, error) {
	var a args
	err := call(opDriverVersion, 0, &a, nil, nil)
	return int(a[0]), err
}

// Context is a CUcontext; 0 means whatever the thread has.
type Context uintptr

// RetainPrimary takes a reference on the primary context of device ordinal (the one that cudart and PyTorch use).
func RetainPrimary(ordinal int) (Context, error) {
	a := args{uint64(ordinal)}
	err := call(opContextRetain, 0, &a, nil, nil)
	return Context(a[0]), err
}

// ReleasePrimary gives the reference back.
func ReleasePrimary(ordinal int) error {
	a := args{uint64(ordinal)}
	return gone(call(opContextRelease, 0, &a, nil, nil))
}

// Synchronize waits for all work of the context, without bound.
func (c Context) Synchronize() error {
	var a args
	return call(opContextSynchronize, c, &a, nil, nil)
}

// CurrentDevice is the ordinal of the device whose context is current on the calling thread; ok is false when the thread has none.
func CurrentDevice() (ordinal int, ok bool, err error) {
	var a args
	err = call(opCurrentDevice, 0, &a, nil, nil)
	if IsCode(err, InvalidContext) {
		return 0, false, nil
	}
	return int(a[0]), err == nil, err
}

// EnablePeer lets kernels of c use memory that peer's cuMemAlloc made; twice is harmless.
func (c Context) EnablePeer(peer Context) error {
	a := args{uint64(peer)}
	return call(opEnablePeer, c, &a, nil, nil)
}

// PriorityRange is the least and the greatest stream priority (the greatest is the smaller number).
func (c Context) PriorityRange() (least, greatest int, err error) {
	var a args
	err = call(opPriorityRange, c, &a, nil, nil)
	return int(int64(a[0])), int(int64(a[1])), err
}
