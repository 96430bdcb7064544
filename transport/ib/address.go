package ib

import (
	"fmt"
	"os"

	"github.com/goccl/goccl/internal/driver/verbs"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/transport/wire"
)

// address is what a Peer sends to its other half.
type address struct {
	gid        verbs.GID
	lid        uint16
	linkLayer  uint8
	mtu        uint8
	readDepth  uint8
	qpn, psn   uint32
	scratch    uint64 // target of writes without bytes
	scratchKey uint32
	nic, host  string // for errors
}

const addressVersion = 1

// Address is what the other half needs to connect. It is a secret: who knows the queue pair's number and the key can
// forge packets.
func (p *Peer) Address() []byte {
	host, _ := os.Hostname()
	a := &p.port.attr
	var w wire.Writer
	w.Raw(p.port.gid[:])
	w.U16(uint16(a.LID))
	w.U8(uint8(a.LinkLayer))
	w.U8(uint8(a.MTU))
	w.U8(uint8(min(a.ReadDepth, 255)))
	w.U32(p.qpn)
	w.U32(p.psn)
	w.U64(uint64(p.port.scratchAddr()))
	w.U32(p.port.scratchMR.RKey)
	w.Bytes([]byte(p.port.nic))
	w.Bytes([]byte(host))
	return w.Seal(kindAddress, addressVersion)
}

func parseAddress(b []byte) (*address, error) {
	r, err := wire.Open(b, kindAddress, addressVersion)
	if err != nil {
		return nil, err
	}
	a := &address{}
	copy(a.gid[:], r.Raw(len(a.gid)))
	a.lid, a.linkLayer, a.mtu, a.readDepth = r.U16(), r.U8(), r.U8(), r.U8()
	a.qpn, a.psn, a.scratch, a.scratchKey = r.U32(), r.U32(), r.U64(), r.U32()
	a.nic, a.host = string(r.Bytes(128)), string(r.Bytes(256))
	if a.mtu < 1 || a.mtu > 5 || a.qpn >= 1<<24 || a.psn >= 1<<24 {
		r.Fail("queue pair %d, packet %d, MTU code %d", a.qpn, a.psn, a.mtu)
	}
	return a, r.Done()
}

// path is how this Peer reaches the other half. received is how many packets of the other half have come already.
func (p *Peer) path(a *address, received uint32) (*verbs.Path, error) {
	own, opt := &p.port.attr, &p.port.opt
	if uint8(own.LinkLayer) != a.linkLayer {
		return nil, fmt.Errorf("ib: %s and %s of host %s have different link layers (InfiniBand, Ethernet)", p.port.nic,
			a.nic, a.host)
	}
	global := plain.Bit[int32](own.LinkLayer == verbs.Ethernet || string(a.gid[:8]) != string(p.port.gid[:8]))
	return &verbs.Path{GID: a.gid, QPN: a.qpn, LocalPSN: p.psn, RemotePSN: (a.psn + received) & (1<<24 - 1),
		Port: int32(p.port.adapter.port), GIDIndex: int32(p.port.gidIndex), LID: int32(a.lid),
		MTU: min(own.MTU, int32(a.mtu)), ServiceLevel: int32(opt.ServiceLevel), TrafficClass: int32(opt.TrafficClass),
		Timeout: int32(opt.Timeout), Retries: int32(opt.Retries),
		ReadDepth: min(own.ReadDepth, int32(a.readDepth), 16), Global: global}, nil
}
