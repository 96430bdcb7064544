package core

import (
	"fmt"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/primitive"
)

func endpointConfig(transport int, d *Device) (cfg primitive.EndpointConfig, err error) {
	t := primitive.Transport(transport)
	if transport < 0 || transport > 255 || !t.Valid() {
		return cfg, fmt.Errorf("%w: transport %d is not known", ErrInvalidArgument, transport)
	}
	return primitive.EndpointConfig{Transport: t, Device: d.device}, nil
}

// EndpointCreate makes a local endpoint.
func EndpointCreate(ctx *primitive.Context, transport int, d *Device) (*primitive.Endpoint, error) {
	return EndpointCreateRDMA(ctx, transport, -1, d, 0, 0, 0, 0, 0)
}

// EndpointCreateRDMA makes a local endpoint with options of an RDMA adapter. adapter is the number of the adapter if it
// is not the transport's.
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

// EndpointDeserialize reads a serialised endpoint.
func EndpointDeserialize(data []byte) (*primitive.Endpoint, error) {
	return primitive.DeserializeEndpoint(data)
}

// EndpointInfo describes an endpoint.
func EndpointInfo(e *primitive.Endpoint) (transport int, kind device.Kind, index int, local bool, err error) {
	id := e.Device()
	return int(e.Transport()), id.Kind, id.Index, e.Local(), nil
}

// ConnectionCreate connects a local endpoint with a remote one.
func ConnectionCreate(ctx *primitive.Context, local, remote *primitive.Endpoint) (*primitive.Connection, error) {
	return ctx.Connect(local, remote)
}

// ConnectionInfo describes a connection; peer is -1 when it is not known.
func ConnectionInfo(c *primitive.Connection) (transport, peer, tag int, err error) {
	return int(c.Transport()), c.PeerRank(), c.Tag(), nil
}

// ConnectionWrite copies within the bounds of both memories.
func ConnectionWrite(c *primitive.Connection, dst *primitive.RegisteredMemory, dstOff uint64,
	src *primitive.RegisteredMemory, srcOff, size uint64) error {
	return c.Write(dst, dstOff, src, srcOff, size)
}

// ConnectionAtomicAdd adds to a word of the peer's memory.
func ConnectionAtomicAdd(c *primitive.Connection, dst *primitive.RegisteredMemory, off, delta uint64) error {
	return c.AtomicAdd(dst, off, delta)
}

// ConnectionUpdateAndSync stores a word here and at the peer.
func ConnectionUpdateAndSync(c *primitive.Connection, dst *primitive.RegisteredMemory, off uint64, src *uint64,
	value uint64) error {
	return c.UpdateAndSync(dst, off, src, value)
}

// ConnectionFlush waits until earlier writes are complete.
func ConnectionFlush(c *primitive.Connection, timeout time.Duration) error { return c.Flush(timeout) }

// MemoryRegister makes memory usable by the transports in flags.
func MemoryRegister(ctx *primitive.Context, d *Device, p uintptr, size uint64, flags uint32) (
	*primitive.RegisteredMemory, error) {
	if size > 1<<60 {
		return nil, fmt.Errorf("%w: %d bytes", ErrInvalidArgument, size)
	}
	return ctx.RegisterMemory(d.device, device.Ptr(p), int64(size), primitive.TransportFlags(flags))
}

// MemoryDeserialize reads a serialised memory.
func MemoryDeserialize(ctx *primitive.Context, data []byte) (*primitive.RegisteredMemory, error) {
	return ctx.DeserializeMemory(data)
}

// MemoryInfo describes a memory; data is 0 while a peer's memory is not mapped.
func MemoryInfo(m *primitive.RegisteredMemory) (data, original uintptr, size uint64, flags uint32, local bool,
	err error) {
	return uintptr(m.Data()), uintptr(m.OriginalData()), uint64(m.Size()), uint32(m.Transports()), m.Local(), nil
}

// MemoryMap maps a peer's memory for a device.
func MemoryMap(m *primitive.RegisteredMemory, d *Device, timeout time.Duration) (uintptr, error) {
	ctx, cancel := stepContext(timeout)
	defer cancel()
	p, err := m.Map(ctx, d.device)
	return uintptr(p), err
}
