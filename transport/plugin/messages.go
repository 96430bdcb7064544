package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/transport"
)

// readControl posts receives of control messages and handles the messages that have arrived.
func (p *Peer) readControl() (did bool, err error) {
	s := &p.progress
	for k := range inFlight { // in order, because messages meet receives in order
		i := (s.next + k) % inFlight
		if s.posted[i] != 0 {
			continue
		}
		_, at := p.slot(inFlight + i)
		if s.posted[i], err = p.lib.Receive(p.comms[controlIn], at, controlSize, s.handles[1]); err != nil {
			return did, gone(err)
		}
		if s.posted[i] == 0 {
			break
		}
	}
	for s.posted[s.next] != 0 {
		done, n, err := p.lib.Test(s.posted[s.next])
		if err != nil {
			return did, gone(err)
		}
		if !done {
			break
		}
		b, _ := p.slot(inFlight + s.next)
		s.posted[s.next] = 0
		s.next = (s.next + 1) % inFlight
		did, s.lastReceived = true, time.Now()
		if n >= 0 && n != controlSize {
			return did, fmt.Errorf("%w: plugin: a control message of %d bytes", transport.ErrPeerGone, n)
		}
		c, err := parseControl(b)
		if err == nil {
			err = p.handle(&c)
		}
		if err != nil {
			return did, err
		}
	}
	return did, nil
}

var errRefused = fmt.Errorf("%w: plugin: the peer refused a put: its region was closed, or the put is outside",
	transport.ErrBounds)

func (p *Peer) handle(c *control) error {
	s := &p.progress
	switch c.kind {
	case kindAck:
		p.acked(c.number)
	case kindRefuse:
		return errRefused
	case kindBye:
		return fmt.Errorf("%w: plugin", transport.ErrPeerClosed)
	case kindPiece:
		if c.pieces > 0 {
			s.arriving[c.number] = c.pieces
		}
		if c.size == 0 {
			p.count(c)
			return nil
		}
		r := p.port.region(c.region)
		if r == nil || c.size > uint64(r.size) || c.offset > uint64(r.size)-c.size || int64(c.size) > p.port.piece {
			p.queueMu.Lock()
			p.goodbye = kindRefuse
			p.queueMu.Unlock()
			return fmt.Errorf("%w: plugin: a put to %d bytes at offset %d of region %#x", transport.ErrBounds, c.size,
				c.offset, c.region)
		}
		p.users[r]++
		s.receives = append(s.receives, transfer{piece: piece{control: *c, src: r, off: int64(c.offset)}})
	}
	return nil
}

// acked ends the puts up to number n.
func (p *Peer) acked(n uint64) {
	p.queueMu.Lock()
	k, _ := slices.BinarySearchFunc(p.unknown, n+1, func(q *put, n uint64) int { return cmp.Compare(q.number, n) })
	known := p.unknown[:k:k]
	p.unknown = p.unknown[k:]
	p.queueMu.Unlock()
	for _, q := range known {
		p.end(q, nil)
		p.pending.End(q.epoch)
	}
}

// end calls done once.
func (p *Peer) end(q *put, err error) {
	if !q.ended {
		q.ended = true
		if q.done != nil {
			q.done(err)
		}
	}
}

const beatEvery = 500 * time.Millisecond

// reap frees the slots of control messages that are sent.
func (p *Peer) reap() (did bool, err error) {
	s := &p.progress
	for s.outgoing[s.oldest] != 0 {
		done, _, err := p.lib.Test(s.outgoing[s.oldest])
		if err != nil || !done {
			return did, err
		}
		s.outgoing[s.oldest], did = 0, true
		s.oldest = (s.oldest + 1) % inFlight
	}
	return did, nil
}

// sendControl sends a control message if a slot is free and the plugin takes it.
func (p *Peer) sendControl(c *control) (ok bool, err error) {
	s := &p.progress
	for k := range inFlight {
		i := (s.oldest + k) % inFlight
		if s.outgoing[i] != 0 {
			continue
		}
		b, at := p.slot(i)
		copy(b, plain.Bytes(c))
		s.outgoing[i], err = p.lib.Send(p.comms[controlOut], at, controlSize, s.handles[0])
		return s.outgoing[i] != 0, err
	}
	return false, nil
}

// writeControl sends acknowledgements, beats and announcements.
func (p *Peer) writeControl() (did bool, err error) {
	s := &p.progress
	if did, err = p.reap(); err != nil {
		return did, gone(err)
	}
	for {
		c, ok := p.nextControl()
		if !ok {
			return did, nil
		}
		if ok, err = p.sendControl(&c); err != nil {
			return did, gone(err)
		}
		if !ok {
			return did, nil
		}
		did, s.said = true, time.Now()
		switch c.kind {
		case kindAck:
			s.acked = c.number
		case kindPiece:
			p.announced()
		}
	}
}

// nextControl chooses the next control message. An announcement stays in the queue until announced.
func (p *Peer) nextControl() (c control, ok bool) {
	s := &p.progress
	p.queueMu.Lock()
	defer p.queueMu.Unlock()
	switch {
	case s.upTo != s.acked:
		return control{kind: kindAck, number: s.upTo}, true
	case len(p.pieces) > 0 && len(s.sends) < 2*inFlight:
		return p.pieces[0].control, true
	case time.Since(s.said) > beatEvery:
		return control{kind: kindBeat}, true
	}
	return c, false
}

// control is a message of the control connection, as it is sent.
type control struct {
	kind, imm            uint32
	region, offset, size uint64
	number               uint64 // of the put; of an acknowledgement the number up to which all puts have arrived
	pieces               uint64 // of the put, with its first piece; else 0
}

const controlSize = 64

const (
	kindPiece = iota + 1
	kindAck
	kindBeat
	kindRefuse
	kindBye
	numKinds
)

func parseControl(b []byte) (c control, err error) {
	c = plain.Read[control](b)
	if c.kind == 0 || c.kind >= numKinds || c.imm >= transport.NumImmediates {
		return c, fmt.Errorf("plugin: a control message of kind %d, immediate %d", c.kind, c.imm)
	}
	return c, nil
}
