package ib

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver/verbs"
	"github.com/goccl/goccl/transport"
)

// Port is an open adapter: one port of a device.
type Port struct {
	opt      Options
	nic      string // with the address, for errors
	adapter  adapter
	context  verbs.Context
	pd       verbs.PD
	attr     verbs.Attributes
	gidIndex int
	gid      verbs.GID
	events   *waiter // asynchronous events
	// scratch is one page of registered memory: the target of writes without bytes.
	scratch   []byte
	scratchMR verbs.MR
	stop      chan struct{}
	tasks     sync.WaitGroup
	flush     flusher

	life   sync.RWMutex // held for reading while the library makes an object of the port; guards closed
	closed bool

	mu      sync.Mutex // guards the fields below; taken after life
	peers   map[*Peer]struct{}
	regions map[*region]struct{}
}

func (n *Net) open(a *adapter) (_ *Port, err error) {
	p := &Port{opt: n.opt, adapter: *a, nic: a.name(), stop: make(chan struct{}), peers: map[*Peer]struct{}{},
		regions: map[*region]struct{}{}}
	var undo []func() error
	defer func() {
		if err == nil {
			return
		}
		for i := len(undo) - 1; i >= 0; i-- {
			_ = undo[i]()
		}
		err = fmt.Errorf("ib: open %s: %w", a.name(), err)
	}()
	var fd int
	if p.context, fd, err = verbs.Open(a.device); err != nil {
		return nil, err
	}
	undo = append(undo, p.context.Close)
	if p.attr, err = p.context.Query(a.port); err != nil {
		return nil, err
	}
	if p.gidIndex, err = a.gidIndex(p.gids(), n.opt.GIDIndex); err != nil {
		return nil, err
	}
	if p.gid, err = p.context.GID(a.port, p.gidIndex); err != nil {
		return nil, err
	}
	if p.pd, err = p.context.PD(); err != nil {
		return nil, err
	}
	undo = append(undo, p.pd.Close)
	if p.scratch, err = syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE); err != nil {
		return nil, err
	}
	undo = append(undo, func() error { return syscall.Munmap(p.scratch) })
	if p.scratchMR, err = p.pd.Register(p.scratchAddr(), int64(len(p.scratch)), access); err != nil {
		return nil, fmt.Errorf("%w%s", err, lockedHint(err))
	}
	undo = append(undo, p.scratchMR.Close)
	if p.events, err = newWaiter(fd); err != nil {
		return nil, err
	}
	p.tasks.Go(p.watch)
	p.tasks.Go(p.keepalive)
	return p, nil
}

// gids is the port's table of addresses.
func (p *Port) gids() []gid {
	entries, err := p.context.GIDs()
	if err != nil {
		return p.adapter.gids()
	}
	var table []gid
	for _, e := range entries {
		if int(e.Port) == p.adapter.port {
			table = append(table, gid{index: int(e.Index), addr: netip.AddrFrom16(e.GID).Unmap(), v2: e.Type == verbs.RoCEv2})
		}
	}
	return table
}

// enter keeps the port open until leave.
func (p *Port) enter() (leave func(), err error) {
	p.life.RLock()
	if p.closed {
		p.life.RUnlock()
		return nil, fmt.Errorf("ib: %s: %w", p.nic, transport.ErrClosed)
	}
	return p.life.RUnlock, nil
}

// keep notes an open region; memory of a GPU makes arrivals flush it.
func (p *Port) keep(r *region) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.regions[r] = struct{}{}
	if r.dev != (device.ID{}) {
		return p.flush.add(p, r)
	}
	return nil
}

func (p *Port) drop(r *region) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.regions, r)
	p.flush.remove(r)
}

// watch hands asynchronous events to the Peers that they are about.
func (p *Port) watch() {
	for {
		var kind int
		var element uint64
		if p.events.wait(func() (err error) { kind, element, err = p.context.Event(); return err }) != nil {
			return
		}
		p.mu.Lock()
		for peer := range p.peers {
			if kind != verbs.EventDeviceFatal && element != uint64(peer.qp) {
				continue
			}
			if err := eventError(kind, peer.way()); err != nil {
				go peer.fail(err) // it takes locks
			}
		}
		p.mu.Unlock()
	}
}

// keepalivePeriod is how often a silent connection is probed.
const keepalivePeriod = 500 * time.Millisecond

// keepalive has every Peer that is silent write nothing to its peer: the acknowledgement shows that the peer lives.
func (p *Port) keepalive() {
	tick := time.Tick(keepalivePeriod)
	for {
		select {
		case <-p.stop:
			return
		case <-tick:
		}
		p.mu.Lock()
		peers := slices.Collect(maps.Keys(p.peers))
		p.mu.Unlock()
		for _, peer := range peers {
			peer.probe()
		}
	}
}

// Close closes the Peers and Regions and then the adapter.
func (p *Port) Close() error {
	p.life.Lock()
	if p.closed {
		p.life.Unlock()
		return nil
	}
	p.closed = true
	p.life.Unlock()
	p.mu.Lock()
	peers, regions := slices.Collect(maps.Keys(p.peers)), slices.Collect(maps.Keys(p.regions))
	p.mu.Unlock()
	var closing sync.WaitGroup // goodbyes take a round trip each
	results := make([]error, len(peers))
	for i, peer := range peers {
		closing.Go(func() { results[i] = peer.Close() })
	}
	closing.Wait()
	errs := append(results, device.CloseAll(regions...))
	close(p.stop)
	p.events.close()
	p.tasks.Wait()
	errs = append(errs, p.flush.close(), p.scratchMR.Close(), syscall.Munmap(p.scratch), p.pd.Close(), p.context.Close())
	return errors.Join(errs...)
}

func (p *Port) scratchAddr() uintptr { return uintptr(unsafe.Pointer(&p.scratch[0])) }

// receives is how many receives a Peer keeps posted.
func (p *Port) receives() int { return min(p.opt.ReceiveDepth, int(p.attr.QueueDepth)) }

// patience is how long the adapter tries to deliver a packet.
func (p *Port) patience() time.Duration {
	return time.Duration(p.opt.Retries+1) * 4096 * time.Nanosecond << p.opt.Timeout
}
