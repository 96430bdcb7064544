package core

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/topo"
)

// Device is an open device and the objects that C made from it. It is never closed, because communicators and the
// caller's memory may be freed in any order.
type Device struct {
	handle Handle
	Device device.Device

	mu      sync.Mutex
	streams map[uintptr]device.Stream // made by NewStream
}

var devices = table[*Device]{kind: kindDevice, name: "device"}

// opened holds the open devices by kind and number.
var opened = struct {
	sync.Mutex
	m map[device.ID]*Device
}{m: map[device.ID]*Device{}}

// allocations holds the memory that C has not freed yet, by address.
var allocations = struct {
	sync.Mutex
	m map[uintptr]device.Allocation
}{m: map[uintptr]device.Allocation{}}

// openDevice returns the device of a kind and number, with the same handle each time.
func openDevice(kind device.Kind, index int) (Handle, error) {
	opened.Lock()
	defer opened.Unlock()
	id := device.ID{Kind: kind, Index: index}
	if d := opened.m[id]; d != nil {
		return d.handle, nil
	}
	var raw device.Device
	var err error
	switch kind {
	case device.Host:
		allCores()
		raw, err = host.Open(index)
	case device.CUDA:
		raw, err = cuda.Open(index)
	default:
		err = fmt.Errorf("%w: device kind %d is neither host (1) nor CUDA (2)", ErrInvalidArgument, kind)
	}
	if err != nil {
		return 0, err
	}
	return devices.add(func(h Handle) *Device {
		d := &Device{handle: h, Device: raw, streams: map[uintptr]device.Stream{}}
		opened.m[id] = d
		return d
	})
}

// kindFromEnv returns the kind that GOCCL_DEVICE requests. When it is not set, that is CUDA where there is a GPU, else
// the host device.
func kindFromEnv() (device.Kind, error) {
	env, err := setting.Read("GOCCL_DEVICE")
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
	}
	switch env.Device {
	case setting.Host:
		return device.Host, nil
	case setting.CUDA:
		return device.CUDA, nil
	}
	if err := cuda.Available(); err != nil {
		sayHost.Do(func() {
			slog.Info("everything runs on the host device; with GOCCL_DEVICE=cuda this is an error", "cause", err)
		})
		return device.Host, nil
	}
	return device.CUDA, nil
}

var sayHost sync.Once

// DeviceCurrent returns the GPU of the calling thread's context, GPU 0 when it has none, or, without a GPU or with
// GOCCL_DEVICE=host, host device number hint. It must run on the thread that called from C.
func DeviceCurrent(hint int) (Handle, error) {
	kind, err := kindFromEnv()
	if err != nil {
		return 0, err
	}
	if kind == device.Host {
		return openDevice(device.Host, hint)
	}
	ordinal, _, err := cuda.Current()
	if err != nil {
		return 0, fmt.Errorf("%w (GOCCL_DEVICE=host runs without a GPU, on host memory)", err)
	}
	return openDevice(device.CUDA, ordinal)
}

func DeviceOpen(kind device.Kind, index int) (Handle, error) {
	if kind == 0 {
		var err error
		if kind, err = kindFromEnv(); err != nil {
			return 0, err
		}
	}
	return openDevice(kind, index)
}

// DeviceCount returns the number of devices of a kind. The number of host devices is unlimited; it returns 1.
func DeviceCount(kind device.Kind) (int, error) {
	if kind == device.Host {
		return 1, nil
	}
	return cuda.Count()
}

func DeviceID(d *Device) (kind device.Kind, index int, err error) {
	id := d.Device.ID()
	return id.Kind, id.Index, nil
}

func DeviceCapability(d *Device) (major, minor, numa int, err error) {
	g, ok := d.Device.(*cuda.Device)
	if !ok {
		return 0, 0, -1, nil
	}
	p := g.Properties()
	return p.Major, p.Minor, topo.NUMANode(p.BusID), nil
}

// Alloc allocates memory that Free finds by its address. For 0 bytes the address is 0.
func Alloc(d *Device, size uint64) (uintptr, error) {
	if size == 0 {
		return 0, nil
	}
	if size > 1<<60 {
		return 0, fmt.Errorf("%w: %d bytes on %v", device.ErrOutOfMemory, size, d.Device.ID())
	}
	a, err := d.Device.Alloc(int64(size))
	if err != nil {
		return 0, err
	}
	allocations.Lock()
	defer allocations.Unlock()
	allocations.m[uintptr(a.Ptr())] = a
	return uintptr(a.Ptr()), nil
}

// Free frees memory that Alloc returned; 0 is harmless.
func Free(p uintptr) error {
	if p == 0 {
		return nil
	}
	allocations.Lock()
	a := allocations.m[p]
	delete(allocations.m, p)
	allocations.Unlock()
	if a == nil {
		return fmt.Errorf("%w: %#x was not allocated here, or was freed", ErrInvalidArgument, p)
	}
	return a.Close()
}

func CopyIn(d *Device, dst uintptr, src unsafe.Pointer, n uint64) error {
	if n == 0 {
		return nil
	}
	if src == nil || dst == 0 {
		return fmt.Errorf("%w: copy of %d bytes from %#x to %#x: NULL is no buffer", ErrInvalidArgument, n, uintptr(src), dst)
	}
	return d.Device.CopyIn(device.Ptr(dst), unsafe.Slice((*byte)(src), n))
}

func CopyOut(d *Device, dst unsafe.Pointer, src uintptr, n uint64) error {
	if n == 0 {
		return nil
	}
	if dst == nil || src == 0 {
		return fmt.Errorf("%w: copy of %d bytes from %#x to %#x: NULL is no buffer", ErrInvalidArgument, n, src, uintptr(dst))
	}
	return d.Device.CopyOut(unsafe.Slice((*byte)(dst), n), device.Ptr(src))
}

// StreamCreate makes a stream and returns its number on the host device, or its CUstream.
func StreamCreate(d *Device) (uintptr, error) {
	s, err := d.Device.NewStream()
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams[s.Raw()] = s
	return s.Raw(), nil
}

// StreamDestroy ends a stream that NewStream made; enqueued work still runs.
func StreamDestroy(d *Device, raw uintptr) error {
	d.mu.Lock()
	s := d.streams[raw]
	delete(d.streams, raw)
	d.mu.Unlock()
	if s == nil {
		return fmt.Errorf("%w: %#x is no stream made here", ErrInvalidArgument, raw)
	}
	for _, c := range comms.all() { // the wrapper must go, since a later stream may have the same number
		if c.dev == d {
			c.forgetStream(raw)
		}
	}
	return s.Close()
}

// stream returns a stream that was made here, or a wrapper of any other stream.
func (d *Device) stream(raw uintptr) (device.Stream, error) {
	d.mu.Lock()
	s := d.streams[raw]
	d.mu.Unlock()
	if s != nil {
		return s, nil
	}
	return d.Device.WrapStream(raw)
}

func StreamSynchronize(ctx context.Context, d *Device, raw uintptr) error {
	s, err := d.stream(raw)
	if err != nil {
		return err
	}
	return s.Synchronize(ctx)
}

// StepContext is the context of a call with a timeout; 0 is no limit.
func StepContext(timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), timeout)
}

// stream returns the wrapper of a raw stream, made once per communicator. When a CUstream is destroyed and its address
// is used again, the wrapper is reused; it holds only the address.
func (c *comm) stream(raw uintptr) (device.Stream, error) {
	if l := c.lastStream.Load(); l != nil && l.raw == raw {
		return l.stream, nil
	}
	c.streamMu.Lock()
	defer c.streamMu.Unlock()
	w := c.streams[raw]
	if w == nil {
		s, err := c.dev.Device.WrapStream(raw)
		if err != nil {
			return nil, err
		}
		w = &wrapped{raw, s}
		if c.streams == nil {
			c.streams = map[uintptr]*wrapped{}
		}
		c.streams[raw] = w
	}
	c.lastStream.Store(w)
	return w.stream, nil
}

// renewDefaultStream forgets stream 0, which on the host device has failed if its work has.
func (c *comm) renewDefaultStream() {
	c.streamMu.Lock()
	defer c.streamMu.Unlock()
	delete(c.streams, 0)
	c.lastStream.Store(nil)
}

type wrapped struct {
	raw    uintptr
	stream device.Stream
}

func (c *comm) forgetStream(raw uintptr) {
	c.streamMu.Lock()
	defer c.streamMu.Unlock()
	delete(c.streams, raw)
	c.lastStream.Store(nil)
}

// notifyLimit bounds how long Notify follows work that does not end; f is called then.
const notifyLimit = 10 * time.Minute

// Notify calls f, on another goroutine, when the work that is on a stream now has ended.
func Notify(h Handle, raw uintptr, f func()) error {
	c, err := comms.get(h)
	if err != nil {
		return err
	}
	s, err := c.stream(raw)
	if err != nil {
		return err
	}
	if g, ok := s.(*cuda.Stream); ok {
		status, _, err := g.CaptureStatus()
		if err != nil {
			return err
		}
		if status != cuda.CaptureNone {
			return fmt.Errorf("%w: the stream is being captured", ErrInvalidUsage)
		}
	}
	e, err := s.Record()
	if err != nil {
		return err
	}
	go func() {
		ctx, stop := context.WithTimeout(context.Background(), notifyLimit)
		defer stop()
		_ = e.Wait(ctx) // an error of the stream ends the work, too
		_ = e.Close()
		f()
	}()
	return nil
}
