package tcp

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/goccl/goccl/transport"
)

// Port is an open interface: a listener, its regions and its peers. It implements transport.Port.
type Port struct {
	opt      NetOptions
	listener *listener
	poller   *poller
	stop     chan struct{} // closed by Close
	wg       sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	closed  bool
	regions map[uint64]*netRegion
	peers   map[*Peer]struct{}
}

// NewPeer makes an endpoint of the listener, with its own secret.
func (p *Port) NewPeer() (transport.Peer, error) {
	peer := newPeer(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, transport.ErrClosed
	}
	p.peers[peer] = struct{}{}
	peer.cred = p.listener.newEndpoint(peer.serve)
	return peer, nil
}

// Addr is where the Port listens.
func (p *Port) Addr() netip.AddrPort { return p.listener.addr }

func (p *Port) dropPeer(peer *Peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.peers, peer)
}

func (p *Port) snapshot() []*Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.peers))
}

// Close closes the peers and the regions, and ends the listener.
func (p *Port) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	close(p.stop)
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, peer := range p.snapshot() {
		all.Go(func() { _ = peer.Close() })
	}
	all.Wait()
	err := p.listener.close()
	p.poller.close()
	p.wg.Wait()
	p.mu.Lock()
	regions := p.regions
	p.regions = map[uint64]*netRegion{}
	p.mu.Unlock()
	for _, r := range regions {
		_ = r.Close()
	}
	return err
}

// Poll implements transport.Poller.
func (p *Port) Poll() { p.poller.try() }

// Polling implements transport.Poller.
func (p *Port) Polling(delta int) { p.poller.leave(delta) }
