package core

import (
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/primitive"
)

func endpointConfig(transport int, d *Device) (cfg primitive.EndpointConfig, err error) {
	t := primitive.Transport(transport)
	if transport < 0 || transport > 255 || !t.Valid() {
		return cfg, fmt.Errorf("%w: transport %d is not known", ErrInvalidArgument, transport)
	}
	return primitive.EndpointConfig{Transport: t, Device: d.Device}, nil
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

// EndpointInfo describes an endpoint.
func EndpointInfo(e *primitive.Endpoint) (transport int, kind device.Kind, index int, local bool, err error) {
	id := e.Device()
	return int(e.Transport()), id.Kind, id.Index, e.Local(), nil
}

// ConnectionInfo describes a connection; peer is -1 when it is not known.
func ConnectionInfo(c *primitive.Connection) (transport, peer, tag int, err error) {
	return int(c.Transport()), c.PeerRank(), c.Tag(), nil
}

// MemoryRegister makes memory usable by the transports in flags.
func MemoryRegister(ctx *primitive.Context, d *Device, p uintptr, size uint64, flags uint32) (
	*primitive.RegisteredMemory, error) {
	if size > 1<<60 {
		return nil, fmt.Errorf("%w: %d bytes", ErrInvalidArgument, size)
	}
	return ctx.RegisterMemory(d.Device, device.Ptr(p), int64(size), primitive.TransportFlags(flags))
}

// MemoryInfo describes a memory; data is 0 while a peer's memory is not mapped.
func MemoryInfo(m *primitive.RegisteredMemory) (data, original uintptr, size uint64, flags uint32, local bool,
	err error) {
	return uintptr(m.Data()), uintptr(m.OriginalData()), uint64(m.Size()), uint32(m.Transports()), m.Local(), nil
}
