//go:build cgo && linux

package ncclnet

//cu:nocgo ErrUnavailable

/*
#cgo LDFLAGS: -ldl
#include "ncclnet.h"
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"math"
	"unsafe"
)

// Library is a plugin that is initialised.
type Library struct {
	net  *C.struct_goccl_net
	name string
}

// Open loads a plugin from a file, or by its name from where the linker looks.
func Open(file string) (*Library, error) {
	l := &Library{net: (*C.struct_goccl_net)(C.calloc(1, C.sizeof_struct_goccl_net)), name: file}
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	message := (*C.char)(C.calloc(1, 512))
	defer C.free(unsafe.Pointer(message))
	if r := C.gocclnet_open(l.net, name, message, 512); r != 0 {
		defer C.free(unsafe.Pointer(l.net))
		if r < 0 {
			return nil, fmt.Errorf("ncclnet: load a network plugin: %s", C.GoString(message))
		}
		return nil, l.check("init", r)
	}
	l.name = C.GoString(C.gocclnet_name(l.net))
	return l, nil
}

func (l *Library) check(call string, r C.int) error {
	if r == 0 {
		return nil
	}
	return &Error{l.name, call, int(r)}
}

// Name is what the plugin calls itself.
func (l *Library) Name() string { return l.name }

// Version is the version of ncclNet that the library implements.
func (l *Library) Version() int { return int(l.net.version) }

// Devices returns the number of adapters.
func (l *Library) Devices() (int, error) {
	var n C.int
	r := C.gocclnet_devices(l.net, &n)
	return int(n), l.check("devices", r)
}

// Properties describes adapter dev.
func (l *Library) Properties(dev int) (Properties, error) {
	var p C.struct_gocclnet_properties
	if err := l.check("getProperties", C.gocclnet_get_properties(l.net, C.int(dev), &p)); err != nil {
		return Properties{}, err
	}
	out := Properties{Memory: int(p.memory), Flush: p.flush != 0, Speed: int(p.speed), MaxBytes: math.MaxInt32}
	if p.name != nil {
		out.Name = C.GoString(p.name)
	}
	if p.pci != nil {
		out.PCI = C.GoString(p.pci)
	}
	if p.max_bytes > 0 && p.max_bytes < math.MaxInt32 {
		out.MaxBytes = int64(p.max_bytes)
	}
	return out, nil
}

// Listen makes a listener and its address.
func (l *Library) Listen(dev int) (handle []byte, at Listener, err error) {
	b := C.calloc(1, HandleSize)
	defer C.free(b)
	var p C.uintptr_t
	r := C.gocclnet_listen(l.net, C.int(dev), b, &p)
	return C.GoBytes(b, HandleSize), Listener(p), l.check("listen", r)
}

// Dial is a connection that is being made.
type Dial struct {
	lib    *Library
	dev    int
	handle unsafe.Pointer
}

// NewDial prepares to connect to a listener. The plugin may keep state in the handle until Close.
func (l *Library) NewDial(dev int, handle []byte) *Dial {
	b := C.calloc(1, HandleSize)
	copy(unsafe.Slice((*byte)(b), HandleSize), handle)
	return &Dial{l, dev, b}
}

// Connect returns 0 if it must be called again.
func (d *Dial) Connect() (Comm, error) {
	var p C.uintptr_t
	r := C.gocclnet_connect(d.lib.net, C.int(d.dev), d.handle, &p)
	return Comm(p), d.lib.check("connect", r)
}

// Close frees the handle.
func (d *Dial) Close() { C.free(d.handle) }

// Accept returns 0 if it must be called again.
func (l *Library) Accept(at Listener) (Comm, error) {
	var p C.uintptr_t
	r := C.gocclnet_accept(l.net, C.uintptr_t(at), &p)
	return Comm(p), l.check("accept", r)
}

// Register makes memory usable on comm. kind is Host or CUDA.
func (l *Library) Register(comm Comm, data uintptr, size int64, kind int) (Handle, error) {
	var p C.uintptr_t
	r := C.gocclnet_register(l.net, C.uintptr_t(comm), C.uintptr_t(data), C.size_t(size), C.int(kind), &p)
	return Handle(p), l.check("regMr", r)
}

// Deregister ends that.
func (l *Library) Deregister(comm Comm, h Handle) error {
	return l.check("deregMr", C.gocclnet_deregister(l.net, C.uintptr_t(comm), C.uintptr_t(h)))
}

// Send and Receive start a message; the i-th message of a comm meets the i-th receive. They return 0 if they must be
// called again.
func (l *Library) Send(comm Comm, data uintptr, size int64, h Handle) (Request, error) {
	var p C.uintptr_t
	r := C.gocclnet_send(l.net, C.uintptr_t(comm), C.uintptr_t(data), C.size_t(size), C.uintptr_t(h), &p)
	return Request(p), l.check("isend", r)
}

// Receive starts to receive at most size bytes.
func (l *Library) Receive(comm Comm, data uintptr, size int64, h Handle) (Request, error) {
	var p C.uintptr_t
	r := C.gocclnet_receive(l.net, C.uintptr_t(comm), C.uintptr_t(data), C.size_t(size), C.uintptr_t(h), &p)
	return Request(p), l.check("irecv", r)
}

// Flush makes received bytes visible to a GPU. It returns 0 if that needs nothing.
func (l *Library) Flush(comm Comm, data uintptr, size int64, h Handle) (Request, error) {
	var p C.uintptr_t
	r := C.gocclnet_flush(l.net, C.uintptr_t(comm), C.uintptr_t(data), C.size_t(size), C.uintptr_t(h), &p)
	return Request(p), l.check("iflush", r)
}

// Test reports whether a request, the oldest of its comm, is complete, and then its size, or -1 if the plugin does not
// tell. A complete request is gone.
func (l *Library) Test(q Request) (done bool, size int, err error) {
	var d, n C.int
	r := C.gocclnet_test(l.net, C.uintptr_t(q), &d, &n)
	return d != 0, int(n), l.check("test", r)
}

// CloseSend, CloseReceive and CloseListener free an object.
func (l *Library) CloseSend(c Comm) error {
	return l.check("closeSend", C.gocclnet_close_send(l.net, C.uintptr_t(c)))
}

// CloseReceive frees the receiving end.
func (l *Library) CloseReceive(c Comm) error {
	return l.check("closeRecv", C.gocclnet_close_receive(l.net, C.uintptr_t(c)))
}

// CloseListener frees a listener.
func (l *Library) CloseListener(at Listener) error {
	return l.check("closeListen", C.gocclnet_close_listener(l.net, C.uintptr_t(at)))
}
