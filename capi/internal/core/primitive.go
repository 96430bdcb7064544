package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/primitive"
)

// Functions of goccl_primitive.h that are methods of package primitive under other names. tools/gen finds those with
// the same names.
var (
	ContextError               = (*primitive.Context).Err
	ConnectionCreate           = (*primitive.Context).Connect
	ProxyServiceBuildSemaphore = (*primitive.ProxyService).BuildAndAddSemaphore
)

func ContextCreate(timeout, spinLimit time.Duration) (*primitive.Context, error) {
	var opts []primitive.ContextOption
	if timeout > 0 {
		opts = append(opts, primitive.WithTimeout(timeout))
	}
	if spinLimit != 0 {
		opts = append(opts, primitive.WithSpinLimit(max(spinLimit, 0)))
	}
	return primitive.NewContext(opts...), nil
}

func ContextAbort(c *primitive.Context, reason string) error {
	var err error
	if reason != "" {
		err = fmt.Errorf("%w: %s", primitive.ErrAborted, reason)
	}
	c.Abort(err)
	return nil
}

// Future is a primitive.Future of any type. Its value becomes an object with a handle at the first wait.
type Future struct {
	get func(context.Context) (any, error)

	mu     sync.Mutex
	handle Handle // of the value, once known
	failed error
	done   bool
}

var errNotYet = fmt.Errorf("%w: it is not there yet", context.DeadlineExceeded)

// FutureWait waits for the value until ctx ends or the future gives up. It returns the value's handle, the same one
// each time, and 0 when the future has no value. When the timeout passes first, it may be called again.
func FutureWait(ctx context.Context, f *Future) (Handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		return f.handle, f.failed
	}
	v, err := f.get(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return 0, errNotYet
	}
	f.done = true
	if err == nil && v != (struct{}{}) {
		f.handle, err = Add(v, nil)
	}
	f.failed = err
	return f.handle, err
}

// Later makes a Future of f.
func Later[T any](f *primitive.Future[T]) *Future {
	return &Future{get: func(ctx context.Context) (any, error) { return f.Get(ctx) }}
}

func CommunicatorCreate(b *Bootstrap, ctx *primitive.Context) (*primitive.Communicator, error) {
	return primitive.NewCommunicator(b.Bootstrap, ctx), nil
}

func CommunicatorConnect(c *primitive.Communicator, transport int, d *Device, rank, tag int) (*Future, error) {
	cfg, err := endpointConfig(transport, d)
	if err != nil {
		return nil, err
	}
	return Later(c.Connect(cfg, rank, tag)), nil
}

func endpointConfig(transport int, d *Device) (cfg primitive.EndpointConfig, err error) {
	t := primitive.Transport(transport)
	if transport < 0 || transport > 255 || !t.Valid() {
		return cfg, fmt.Errorf("%w: transport %d is not known", ErrInvalidArgument, transport)
	}
	return primitive.EndpointConfig{Transport: t, Device: d.Device}, nil
}

func EndpointCreate(ctx *primitive.Context, transport int, d *Device) (*primitive.Endpoint, error) {
	return EndpointCreateRDMA(ctx, transport, -1, d, 0, 0, 0, 0, 0)
}

func EndpointCreateRDMA(ctx *primitive.Context, transport, adapter int, d *Device, port, gidIndex, queueDepth,
	sendDepth, receiveDepth int) (*primitive.Endpoint, error) {
	if adapter >= 0 && primitive.Transport(transport).IsIB() {
		if transport = int(primitive.IB0) + adapter; adapter > 7 {
			return nil, fmt.Errorf("%w: RDMA adapter %d: IB0 to IB7 name the first eight", ErrInvalidArgument, adapter)
		}
	}
	cfg, err := endpointConfig(transport, d)
	if err != nil {
		return nil, err
	}
	cfg.RDMA = primitive.RDMAConfig{Port: port, GIDIndex: gidIndex, QueueDepth: queueDepth, SendDepth: sendDepth,
		ReceiveDepth: receiveDepth}
	return ctx.CreateEndpoint(cfg)
}

func EndpointInfo(e *primitive.Endpoint) (transport int, kind device.Kind, index int, local bool, err error) {
	id := e.Device()
	return int(e.Transport()), id.Kind, id.Index, e.Local(), nil
}

func ConnectionInfo(c *primitive.Connection) (transport, peer, tag int, err error) {
	return int(c.Transport()), c.PeerRank(), c.Tag(), nil
}

func MemoryRegister(ctx *primitive.Context, d *Device, p uintptr, size uint64, flags uint32) (
	*primitive.RegisteredMemory, error) {
	if size > 1<<60 {
		return nil, fmt.Errorf("%w: %d bytes", ErrInvalidArgument, size)
	}
	return ctx.RegisterMemory(d.Device, device.Ptr(p), int64(size), primitive.TransportFlags(flags))
}

func MemoryInfo(m *primitive.RegisteredMemory) (data, original uintptr, size uint64, flags uint32, local bool,
	err error) {
	return uintptr(m.Data()), uintptr(m.OriginalData()), uint64(m.Size()), uint32(m.Transports()), m.Local(), nil
}

func SemaphoreSignal(s *primitive.Semaphore) error {
	return primitive.NewHost2DeviceSemaphore(s).Signal()
}

func SemaphorePoll(s *primitive.Semaphore) (arrived bool, err error) {
	hs, err := primitive.NewHost2HostSemaphore(s)
	if err != nil {
		return false, err
	}
	return hs.Poll(), nil
}

func SemaphoreWait(ctx context.Context, s *primitive.Semaphore) error {
	hs, err := primitive.NewHost2HostSemaphore(s)
	if err != nil {
		return err
	}
	return hs.Wait(ctx)
}

func MemoryChannelCreate(s *primitive.Semaphore, dst, src *primitive.RegisteredMemory, packetBuffer Handle) (
	channel *primitive.MemoryChannel, err error) {
	var packets *primitive.RegisteredMemory
	if packetBuffer != 0 {
		if packets, err = Find[*primitive.RegisteredMemory](packetBuffer); err != nil {
			return nil, err
		}
	}
	return primitive.NewMemoryChannel(s, dst, src, packets)
}

func FifoPoll(f *primitive.Fifo) (Trigger, bool, error) {
	t, position, ok := f.Poll()
	if !ok {
		return Trigger{}, false, nil
	}
	return Trigger{uint64(t.Type), uint64(t.Size), uint64(t.Src), uint64(t.SrcOffset), uint64(t.Dst), uint64(t.DstOffset),
		uint64(t.Semaphore), position}, true, nil
}

func FifoPop(f *primitive.Fifo) error {
	if _, _, ok := f.Poll(); !ok {
		return fmt.Errorf("%w: the fifo is empty: pop follows a poll that found a trigger", ErrInvalidUsage)
	}
	f.Pop()
	return nil
}

func ProxyServiceCreate(ctx *primitive.Context, d *Device, fifoSize int) (*primitive.ProxyService, error) {
	if fifoSize < 0 || fifoSize > 1<<20 {
		return nil, fmt.Errorf("%w: a fifo of %d triggers", ErrInvalidArgument, fifoSize)
	}
	return primitive.NewProxyService(ctx, d.Device, primitive.ProxyOptions{FifoSize: fifoSize})
}
