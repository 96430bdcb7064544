package ib

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/goccl/goccl/internal/driver/verbs"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/wire"
)

// connectPoll is how long Connect sleeps between polls.
const connectPoll = 200 * time.Microsecond

// Connect joins the two halves:
//
//  1. The queue pair goes to its ready states, with the other half's numbers.
//  2. A write without bytes says hello. The other half's queue pair may not be ready yet: its adapter then drops the
//     packet, and this one sends it again as often as GOCCL_IB_RETRY_CNT allows. When that was in vain the queue pair
//     starts again from 1 with the same packet numbers, so that a hello which did come is not counted twice. The
//     other half's hello, which is one packet, may have come before that.
//  3. When both hellos have come and this one is acknowledged, puts are possible in both directions.
func (p *Peer) Connect(ctx context.Context, remote []byte) error {
	a, err := parseAddress(remote)
	if err != nil {
		return fmt.Errorf("ib: %s: the address of the other half: %w", p.port.nic, err)
	}
	if !p.remote.CompareAndSwap(nil, a) {
		return fmt.Errorf("ib: %s: Connect was called before", p.way())
	}
	for again := false; !p.helloSent || !p.helloCame; again = true {
		if err := p.start(a, again); err != nil {
			return fmt.Errorf("ib: %s: connect: %w", p.way(), err)
		}
		for !p.helloSent || !p.helloCame {
			failed, err := p.connecting()
			if err != nil {
				return err
			}
			if failed {
				break
			}
			if err := p.Err(); err != nil {
				return err
			}
			if ctx.Err() != nil {
				err := fmt.Errorf("ib: %s: connect: %w: %w: the other half has not answered", p.way(), transport.ErrPeerGone,
					context.Cause(ctx))
				p.fail(err)
				return err
			}
			time.Sleep(connectPoll)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Err(); err != nil {
		return err
	}
	p.connected = true
	go p.progress()
	return nil
}

// start takes the queue pair to its ready states and says hello.
func (p *Peer) start(a *address, again bool) error {
	path, err := p.path(a, p.packets)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Err(); err != nil {
		return err
	}
	if again {
		p.generation++
		p.restarts.Add(1)
		p.queue.posted = ring{}
		if err := p.qp.Reset(); err != nil {
			return err
		}
		if err := p.qp.Init(p.port.adapter.port); err != nil {
			return err
		}
	}
	if err := p.qp.Receive(p.port.receives(), receiveID|p.generation); err != nil {
		return err
	}
	if err := p.qp.Ready(path); err != nil {
		return err
	}
	r := request{work: verbs.Work{ID: p.generation, Opcode: verbs.WriteImmediate, Imm: hello, Flags: verbs.Signaled,
		Remote: a.scratch, RKey: a.scratchKey}}
	p.queue.posted.push(&r)
	return p.qp.Send(&r.work)
}

// connecting takes completions before the goroutine runs. failed means that the hello was not acknowledged and must be
// said again.
func (p *Peer) connecting() (failed bool, err error) {
	var wc [16]verbs.Completion
	for {
		n, err := p.cq.Poll(wc[:])
		if err != nil || n == 0 {
			return failed, err
		}
		for i := range wc[:n] {
			c := &wc[i]
			switch {
			case c.ID&^receiveID != p.generation || c.Status == verbs.Flushed:
				// of an earlier start, or behind the hello's failure
			case c.Status == verbs.RetryExceeded && (p.packets == 0 || p.packets == 1 && p.helloCame):
				failed = true
			case c.Status != verbs.Success:
				p.fail(completionError(c, p.way(), p.port.patience()))
				return false, p.Err()
			case c.ID&receiveID != 0:
				p.packets++
				p.receive(c)
			default:
				p.helloSent = true
				p.mu.Lock()
				p.queue.posted.pop()
				p.mu.Unlock()
			}
		}
		if err := p.arrive(); err != nil {
			p.fail(err)
			return false, err
		}
	}
}

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
	r := wire.Open(b, kindAddress, addressVersion)
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
