package core

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unsafe"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/primitive"
)

// kindObject is shared by objects of package primitive, modules, functions and futures: they have one table, and a call
// with an object of the wrong type returns an error that names it. The objects from which an object was made must
// outlive it. The holder closes handles in the reverse order, or closes the context, which ends every object made from
// it and makes all later closes harmless.
const kindObject = 0x0ca1

var objects = table[any]{kind: kindObject, name: "object"}

// Add makes an object of v, if err is nil, and returns its handle.
func Add(v any, err error) (Handle, error) {
	if err != nil {
		return 0, err
	}
	return objects.add(func(Handle) any { return v })
}

// Ready is a communicator that is set up.
type Ready struct {
	c     *comm
	inner *goccl.Comm
}

// Open is a Ready that was not finalized, Active an Open that was not revoked: it takes calls.
type (
	Open   Ready
	Active Ready
)

// Find returns the object of h, if it is a T.
func Find[T any](h Handle) (found T, err error) {
	switch p := any(&found).(type) {
	case *Ready:
		p.c, p.inner, err = usable(h, stateFinalized)
		return found, err
	case *Open:
		p.c, p.inner, err = usable(h, stateRevoked)
		return found, err
	case *Active:
		p.c, p.inner, err = usable(h, stateOpen)
		return found, err
	case **Device:
		*p, err = devices.get(h)
		return found, err
	case **Bootstrap:
		*p, err = bootstraps.get(h)
		return found, err
	case **Window:
		*p, err = windows.get(h)
		return found, err
	case **Fusion:
		*p, err = fusions.get(h)
		return found, err
	}
	v, err := objects.get(h)
	if err != nil {
		return found, err
	}
	t, ok := v.(T)
	if !ok {
		return t, fmt.Errorf("%w: %#x is a %s, not a %s", ErrInvalidArgument, uint64(h), nameOf(v), nameOf(t))
	}
	return t, nil
}

var capital = regexp.MustCompile("([a-z])([A-Z])")

// nameOf is the name of an object in errors: "registered memory" of a *primitive.RegisteredMemory.
func nameOf(v any) string {
	if _, ok := v.(*primitive.Communicator); ok {
		return "communicator of primitives"
	}
	_, name, _ := strings.Cut(fmt.Sprintf("%T", v), ".")
	return strings.ToLower(capital.ReplaceAllString(name, "$1 $2"))
}

// ObjectClose ends an object and removes its handle. A handle that is already gone is harmless, so that objects may be
// closed in any order.
func ObjectClose(h Handle) error {
	v, err := objects.get(h)
	if err != nil {
		if h>>48 == kindObject {
			return nil
		}
		return err
	}
	if !objects.remove(h) {
		return nil
	}
	if c, ok := v.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

func ObjectSerialize(h Handle) ([]byte, error) {
	v, err := Find[any](h)
	if err != nil {
		return nil, err
	}
	switch o := v.(type) {
	case *primitive.Endpoint:
		return o.Serialize(), nil
	case *primitive.RegisteredMemory:
		return o.Serialize()
	case *primitive.SemaphoreStub:
		return o.Serialize()
	}
	return nil, fmt.Errorf("%w: a %s is not exchanged as bytes", ErrInvalidArgument, nameOf(v))
}

func ObjectDeviceHandle(h Handle) ([]byte, error) {
	v, err := objects.get(h)
	if err != nil {
		return nil, err
	}
	switch o := v.(type) {
	case *primitive.Semaphore:
		return bytesOf(o.DeviceHandle()), nil
	case *primitive.BaseMemoryChannel:
		return bytesOf(o.DeviceHandle()), nil
	case *primitive.MemoryChannel:
		return bytesOf(o.DeviceHandle()), nil
	case *primitive.BasePortChannel:
		return bytesOf(o.DeviceHandle()), nil
	case *primitive.PortChannel:
		return bytesOf(o.DeviceHandle()), nil
	case *primitive.SwitchChannel:
		return bytesOf(o.DeviceHandle()), nil
	case *primitive.Fifo:
		return bytesOf(o.DeviceHandle()), nil
	}
	return nil, fmt.Errorf("%w: a %s has no device handle", ErrInvalidArgument, nameOf(v))
}

// bytesOf copies a handle, which is plain data in the layout of the device headers.
func bytesOf[T any](v T) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)))
}
