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
	if err := start(); err != nil {
		return fmt.Errorf("driver: the library was found but does not start: %w", err)
	}
	return nil
})

//cu:call start() = cuInit(0)

// Load opens and initializes the driver, once per process; later calls return the same result. Every other function of
// this package requires a successful Load.
func Load() error { return load() }

// Version returns the CUDA version of the driver: 12080 is 12.8.
//
//cu:call Version() (version int) = cuDriverGetVersion(version)

// Context is a CUcontext; 0 is the thread's current context.
type Context uintptr

// RetainPrimary takes a reference to the primary context of device ordinal, which cudart and PyTorch use too.
//
//cu:call RetainPrimary(ordinal int) (c Context) = retain_primary(a)

// ReleasePrimary drops the reference.
//
//cu:call ReleasePrimary(ordinal int) = gone cuDevicePrimaryCtxRelease_v2(ordinal)

//cu:call current() (ordinal int) = cuCtxGetDevice(ordinal)

// CurrentDevice returns the ordinal of the device whose context is current on the calling thread; ok is false if the
// thread has none.
func CurrentDevice() (ordinal int, ok bool, err error) {
	if ordinal, err = current(); IsCode(err, InvalidContext) {
		return 0, false, nil
	}
	return ordinal, err == nil, err
}

// EnablePeer lets kernels of c access memory that peer's cuMemAlloc made. Calling it twice is harmless.
//
//cu:call (c Context) EnablePeer(peer Context) = enable_peer(a)

// PriorityRange returns the least and the greatest stream priority (the greatest is the smaller number).
//
//cu:call (c Context) PriorityRange() (least, greatest int) = cuCtxGetStreamPriorityRange(least, greatest)
