package core

import (
	"fmt"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/primitive"
)

func (a *args) endpoint(transport int, dev Handle) (cfg primitive.EndpointConfig) {
	d, t := a.device(dev), primitive.Transport(transport)
	if a.err == nil && (transport < 0 || transport > 255 || !t.Valid()) {
		a.err = fmt.Errorf("%w: transport %d is not known", ErrInvalidArgument, transport)
	}
	if a.err != nil {
		return cfg
	}
	return primitive.EndpointConfig{Transport: t, Device: d.device}
}

// EndpointCreate makes a local endpoint.
func EndpointCreate(ctx Handle, transport int, dev Handle) (Handle, error) {
	var a args
	c, cfg := arg[*primitive.Context](&a, ctx), a.endpoint(transport, dev)
	return create(&a, func() (*primitive.Endpoint, error) { return c.CreateEndpoint(cfg) })
}

// EndpointCreateRDMA makes a local endpoint with options of an RDMA adapter. adapter is the number of the adapter if it
// is not the transport's.
func EndpointCreateRDMA(ctx Handle, transport, adapter int, dev Handle, port, gidIndex, queueDepth, sendDepth,
	receiveDepth int) (Handle, error) {
	var a args
	if adapter >= 0 && primitive.Transport(transport).IsIB() {
		if transport = int(primitive.IB0) + adapter; adapter > 7 {
			return 0, fmt.Errorf("%w: RDMA adapter %d: IB0 to IB7 name the first eight", ErrInvalidArgument, adapter)
		}
	}
	c, cfg := arg[*primitive.Context](&a, ctx), a.endpoint(transport, dev)
	cfg.RDMA = primitive.RDMAConfig{Port: port, GIDIndex: gidIndex, QueueDepth: queueDepth, SendDepth: sendDepth,
		ReceiveDepth: receiveDepth}
	return create(&a, func() (*primitive.Endpoint, error) { return c.CreateEndpoint(cfg) })
}

// EndpointDeserialize reads a serialised endpoint.
func EndpointDeserialize(data []byte) (Handle, error) {
	return addObject(primitive.DeserializeEndpoint(data))
}

// EndpointInfo describes an endpoint.
func EndpointInfo(h Handle) (transport int, kind device.Kind, index int, local bool, err error) {
	e, err := objectOf[*primitive.Endpoint](h)
	if err != nil {
		return 0, 0, 0, false, err
	}
	id := e.Device()
	return int(e.Transport()), id.Kind, id.Index, e.Local(), nil
}

// ConnectionCreate connects a local endpoint with a remote one.
func ConnectionCreate(ctx, local, remote Handle) (Handle, error) {
	var a args
	c, l, r := arg[*primitive.Context](&a, ctx), arg[*primitive.Endpoint](&a, local), arg[*primitive.Endpoint](&a, remote)
	return create(&a, func() (*primitive.Connection, error) { return c.Connect(l, r) })
}

// ConnectionInfo describes a connection; peer is -1 when it is not known.
func ConnectionInfo(h Handle) (transport, peer, tag int, err error) {
	c, err := objectOf[*primitive.Connection](h)
	if err != nil {
		return 0, 0, 0, err
	}
	return int(c.Transport()), c.PeerRank(), c.Tag(), nil
}

// ConnectionWrite copies within the bounds of both memories.
func ConnectionWrite(conn, dst Handle, dstOff uint64, src Handle, srcOff, size uint64) error {
	var a args
	c, d, s := arg[*primitive.Connection](&a, conn), arg[*primitive.RegisteredMemory](&a, dst),
		arg[*primitive.RegisteredMemory](&a, src)
	return a.do(func() error { return c.Write(d, dstOff, s, srcOff, size) })
}

// ConnectionAtomicAdd adds to a word of the peer's memory.
func ConnectionAtomicAdd(conn, dst Handle, off, delta uint64) error {
	var a args
	c, d := arg[*primitive.Connection](&a, conn), arg[*primitive.RegisteredMemory](&a, dst)
	return a.do(func() error { return c.AtomicAdd(d, off, delta) })
}

// ConnectionUpdateAndSync stores a word here and at the peer.
func ConnectionUpdateAndSync(conn, dst Handle, off uint64, src *uint64, value uint64) error {
	var a args
	c, d := arg[*primitive.Connection](&a, conn), arg[*primitive.RegisteredMemory](&a, dst)
	return a.do(func() error { return c.UpdateAndSync(d, off, src, value) })
}

// ConnectionFlush waits until earlier writes are complete.
func ConnectionFlush(conn Handle, timeout time.Duration) error {
	return with(conn, func(c *primitive.Connection) error { return c.Flush(timeout) })
}

// MemoryRegister makes memory usable by the transports in flags.
func MemoryRegister(ctx, dev Handle, p uintptr, size uint64, flags uint32) (Handle, error) {
	var a args
	c, d := arg[*primitive.Context](&a, ctx), a.device(dev)
	return create(&a, func() (*primitive.RegisteredMemory, error) {
		if size > 1<<60 {
			return nil, fmt.Errorf("%w: %d bytes", ErrInvalidArgument, size)
		}
		return c.RegisterMemory(d.device, device.Ptr(p), int64(size), primitive.TransportFlags(flags))
	})
}

// MemoryDeserialize reads a serialised memory.
func MemoryDeserialize(ctx Handle, data []byte) (Handle, error) {
	return from(ctx, func(c *primitive.Context) (*primitive.RegisteredMemory, error) { return c.DeserializeMemory(data) })
}

// MemoryInfo describes a memory; data is 0 while a peer's memory is not mapped.
func MemoryInfo(h Handle) (data, original uintptr, size uint64, flags uint32, local bool, err error) {
	m, err := objectOf[*primitive.RegisteredMemory](h)
	if err != nil {
		return 0, 0, 0, 0, false, err
	}
	return uintptr(m.Data()), uintptr(m.OriginalData()), uint64(m.Size()), uint32(m.Transports()), m.Local(), nil
}

// MemoryMap maps a peer's memory for a device.
func MemoryMap(h, dev Handle, timeout time.Duration) (uintptr, error) {
	var a args
	m, d := arg[*primitive.RegisteredMemory](&a, h), a.device(dev)
	return tell(&a, func() (uintptr, error) {
		ctx, cancel := stepContext(timeout)
		defer cancel()
		p, err := m.Map(ctx, d.device)
		return uintptr(p), err
	})
}
