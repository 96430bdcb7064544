package primitive

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport/ipc"
	"github.com/goccl/goccl/transport/tcp"
	"github.com/goccl/goccl/transport/wire"
)

// EndpointConfig is the configuration of an endpoint.
type EndpointConfig struct {
	Transport Transport
	// Device holds the endpoint's memory: a GPU, or a host device, which stands for the CPU.
	Device device.Device
	// RDMA holds options of IB0 to IB7.
	RDMA RDMAConfig
}

// Endpoint is one end of a connection: a device and a transport. Context.CreateEndpoint makes a local endpoint, which
// may be used for several connections; DeserializeEndpoint makes a remote one.
type Endpoint struct {
	transport     Transport
	owner         device.ID
	id            uint64
	host, process ipc.ID
	addr          netip.AddrPort // of networks: where the owner's Context listens
	cred          tcp.Credential // of networks: for an exchange there

	// Local endpoints only.
	ctx  *Context
	dev  device.Device
	once sync.Once
}

// CreateEndpoint makes a local endpoint. For Ethernet and RDMA it starts the
// Context's listener.
func (c *Context) CreateEndpoint(cfg EndpointConfig) (*Endpoint, error) {
	const op = "create endpoint"
	if err := c.usable(op); err != nil {
		return nil, err
	}
	if cfg.Device == nil {
		return nil, invalid(op, "EndpointConfig.Device is nil: open a device with device/host or device/cuda")
	}
	e := &Endpoint{transport: cfg.Transport, owner: cfg.Device.ID(), id: randomID(), host: ipc.HostID(),
		process: ipc.ProcessID, ctx: c, dev: cfg.Device}
	switch {
	case cfg.Transport == IPC:
	case cfg.Transport.network():
		if err := c.listen(e, cfg.RDMA); err != nil {
			return nil, c.wrap(err, op, NoRank)
		}
	default:
		return nil, invalid(op, "transport %v", cfg.Transport)
	}
	if err := c.own(e); err != nil {
		return nil, c.wrap(err, op, NoRank)
	}
	return e, nil
}

func randomID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// Transport returns the endpoint's transport.
func (e *Endpoint) Transport() Transport { return e.transport }

// Device returns the device that holds the endpoint's memory.
func (e *Endpoint) Device() device.ID { return e.owner }

// Local reports whether a Context of this process made the endpoint.
func (e *Endpoint) Local() bool { return e.ctx != nil }

// SameHost reports whether both endpoints are on one host.
func (e *Endpoint) SameHost(o *Endpoint) bool { return e.host == o.host }

// SameProcess reports whether both endpoints were made in one process.
func (e *Endpoint) SameProcess(o *Endpoint) bool { return e.process == o.process }

// String formats e, for example "ipc cuda:3" or "ethernet host:0 at 10.0.0.4:40001".
func (e *Endpoint) String() string {
	if e.transport.network() {
		return fmt.Sprintf("%v %v at %v", e.transport, e.owner, e.addr)
	}
	return fmt.Sprintf("%v %v", e.transport, e.owner)
}

// Close stops accepting new connections. A remote endpoint need not be closed.
func (e *Endpoint) Close() error {
	if e.ctx == nil {
		return nil
	}
	e.once.Do(func() {
		e.ctx.disown(e)
		if e.transport.network() {
			if n := e.ctx.opened(Ethernet); n != nil {
				n.port.(*tcp.Port).EndExchange(e.cred)
			}
		}
	})
	return nil
}

// Kinds of sealed records of this package.
const (
	kindEndpoint uint8 = 1 + iota
	kindMemory
	kindStub
	kindCulprit
)

const endpointVersion = 1

// Serialize encodes the endpoint. For networks the bytes contain the secret that lets a peer connect: send them over an
// authenticated and encrypted channel, as the Communicator does.
func (e *Endpoint) Serialize() []byte {
	var w wire.Writer
	w.U8(uint8(e.transport))
	w.U8(uint8(e.owner.Kind))
	w.U16(uint16(e.owner.Index))
	w.U64(e.id)
	w.Raw(e.host[:])
	w.Raw(e.process[:])
	if e.transport.network() {
		addr, _ := e.addr.MarshalBinary() // never fails
		w.Bytes(addr)
		w.Raw(e.cred.Secret[:])
	}
	return w.Seal(kindEndpoint, endpointVersion)
}

// DeserializeEndpoint decodes the result of Serialize, in this process or another.
func DeserializeEndpoint(data []byte) (*Endpoint, error) {
	const op = "deserialize endpoint"
	r := wire.Open(data, kindEndpoint, endpointVersion)
	e := &Endpoint{transport: Transport(r.U8())}
	e.owner = getDeviceID(r)
	e.id = r.U64()
	copy(e.host[:], r.Raw(len(e.host)))
	copy(e.process[:], r.Raw(len(e.process)))
	switch {
	case !e.transport.Valid():
		r.Fail("transport %d", e.transport)
	case e.transport.network():
		// 16 bytes of IPv6, a zone of a network interface's length, 2 bytes of port.
		if err := e.addr.UnmarshalBinary(r.Bytes(16 + 16 + 2)); err != nil || !e.addr.IsValid() ||
			e.addr.Addr().IsUnspecified() || e.addr.Port() == 0 {
			r.Fail("address %v", e.addr)
		}
		copy(e.cred.Secret[:], r.Raw(len(e.cred.Secret)))
		e.cred.Endpoint = e.id
	}
	if err := r.Done(); err != nil {
		return nil, failure(op, NoRank, NoRank, fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	return e, nil
}

func getDeviceID(r *wire.Reader) device.ID {
	id := device.ID{Kind: device.Kind(r.U8()), Index: int(r.U16())}
	if id.Kind != device.Host && id.Kind != device.CUDA {
		r.Fail("device kind %d", id.Kind)
	}
	return id
}
