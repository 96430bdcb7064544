package driver

import (
	"errors"
	"fmt"
	"sync"
)

// ErrNoDriver is the error of Load if the library is missing, too old, or not supported by this build.
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

// Load opens and initializes the driver, once per process; later calls return the same result. Every other function of
// this package requires a successful Load.
func Load() error { return load() }

// Version returns the CUDA version of the driver: 12080 is 12.8.
func Version() (int, error) { return get[int](0, opDriverVersion, args{}) }

// Context is a CUcontext; 0 is the thread's current context.
type Context uintptr

// RetainPrimary takes a reference to the primary context of device ordinal, which cudart and PyTorch use too.
func RetainPrimary(ordinal int) (Context, error) {
	return get[Context](0, opContextRetain, args{uint64(ordinal)})
}

// ReleasePrimary drops the reference.
func ReleasePrimary(ordinal int) error {
	return gone(Context(0).run(opContextRelease, args{uint64(ordinal)}))
}

// Synchronize waits for all work of the context, without bound.
func (c Context) Synchronize() error { return c.run(opContextSynchronize, args{}) }

// CurrentDevice returns the ordinal of the device whose context is current on the calling thread; ok is false if the
// thread has none.
func CurrentDevice() (ordinal int, ok bool, err error) {
	var a args
	err = call(opCurrentDevice, 0, &a, nil, nil)
	if IsCode(err, InvalidContext) {
		return 0, false, nil
	}
	return int(a[0]), err == nil, err
}

// EnablePeer lets kernels of c access memory that peer's cuMemAlloc made. Calling it twice is harmless.
func (c Context) EnablePeer(peer Context) error { return c.run(opEnablePeer, args{uint64(peer)}) }

// PriorityRange returns the least and the greatest stream priority (the greatest is the smaller number).
func (c Context) PriorityRange() (least, greatest int, err error) {
	return get2[int, int](c, opPriorityRange, args{})
}
