package plugin

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/transport"
)

// farewellTime bounds how long the last message may take.
const farewellTime = 300 * time.Millisecond

// farewell sends the last message and waits until the other side closes, so that the message is not lost.
func (p *Peer) farewell() {
	p.queueMu.Lock()
	kind := p.goodbye
	p.queueMu.Unlock()
	err := p.Err()
	if kind == 0 || errors.Is(err, transport.ErrPeerGone) || errors.Is(err, transport.ErrPeerClosed) {
		return
	}
	s := &p.progress
	sent := false
	for end := time.Now().Add(farewellTime); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if _, err = p.reap(); err == nil && !sent {
			sent, err = p.sendControl(&control{kind: kind})
		}
		if err != nil {
			return
		}
		if q := s.posted[s.next]; q != 0 { // its end shows that the other side has read the message and closed
			done, _, err := p.lib.Test(q)
			if err != nil {
				return
			}
			if done {
				s.posted[s.next] = 0
				s.next = (s.next + 1) % inFlight
			}
		}
	}
}

// cleanUp closes the plugin's objects. The caller holds mu.
func (p *Peer) cleanUp() {
	if p.over {
		return
	}
	p.over = true
	for u, h := range p.handles {
		_ = p.lib.Deregister(p.comms[u.comm], h)
	}
	for i, c := range [2]int{controlOut, controlIn} {
		if h := p.progress.handles[i]; h != 0 {
			_ = p.lib.Deregister(p.comms[c], h)
		}
	}
	for c, comm := range p.comms {
		switch {
		case comm == 0:
		case c < controlIn:
			_ = p.lib.CloseSend(comm)
		default:
			_ = p.lib.CloseReceive(comm)
		}
	}
	p.closeListeners()
	if p.buffer != nil {
		_ = unix.Munmap(p.buffer.b)
	}
}

// endAll ends the puts that are left with the error.
func (p *Peer) endAll() {
	p.queueMu.Lock()
	puts := p.unknown
	p.unknown, p.pieces = nil, nil
	p.queueMu.Unlock()
	for _, q := range puts {
		p.end(q, p.Err())
		p.pending.End(q.epoch)
	}
}
