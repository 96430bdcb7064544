package netfake

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/goccl/goccl/transport"
)

// Options describe a fabric. The zero value has delays and reordering only.
type Options struct {
	Seed uint64
	// Delay is the longest virtual time between two steps of a put; 0 is 64.
	Delay int
	// Repeat is the share of puts whose bytes are written twice.
	Repeat float64
	// Slow is the share of hosts whose puts take 16 times as long.
	Slow float64
	// Break loses one connection after that number of arrivals in the fabric, and Die kills one host; 0 is never. The
	// seed chooses the victim.
	Break, Die int
}

// Fabric is a network of hosts.
type Fabric struct {
	opt Options
	wg  sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	wake     *sync.Cond
	closed   bool
	paused   bool // no step is taken
	rng      *rand.Rand
	now      uint64
	steps    queue
	arrivals int
	nets     map[string]*Net
	order    []string // hosts by their first Net
	halves   map[uint64]*Peer
	regions  map[uint64]*region
	next     uint64
}

// New makes a fabric without hosts.
func New(opt Options) *Fabric {
	if opt.Delay <= 0 {
		opt.Delay = 64
	}
	f := &Fabric{opt: opt, rng: rand.New(rand.NewPCG(opt.Seed, 0)), nets: map[string]*Net{}, halves: map[uint64]*Peer{},
		regions: map[uint64]*region{}}
	f.wake = sync.NewCond(&f.mu)
	f.wg.Go(f.run)
	return f
}

// Net returns the network as a host sees it. Ranks of one host share it.
func (f *Fabric) Net(host string) transport.Net {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nets[host]
	if n == nil {
		n = &Net{fabric: f, host: host, slow: 1}
		if f.source(host).Float64() < f.opt.Slow {
			n.slow = 16
		}
		f.nets[host] = n
		f.order = append(f.order, host)
	}
	return n
}

// source returns the random numbers of a place in the fabric.
func (f *Fabric) source(place string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(place))
	return rand.New(rand.NewPCG(f.opt.Seed, h.Sum64()))
}

// step is something that happens to a put at a virtual time.
type step struct {
	at   uint64
	half uint64 // ties are broken by the connection and the order of its puts
	seq  uint64
	do   func()
}

type queue []step

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	a, b := &q[i], &q[j]
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.half != b.half:
		return a.half < b.half
	}
	return a.seq < b.seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(step)) }
func (q *queue) Pop() any {
	old := *q
	s := old[len(old)-1]
	old[len(old)-1] = step{}
	*q = old[:len(old)-1]
	return s
}

// run takes the earliest step, again and again. Before each it lets others run, who may know an earlier one.
func (f *Fabric) run() {
	for {
		runtime.Gosched()
		f.mu.Lock()
		for (len(f.steps) == 0 || f.paused) && !f.closed {
			f.wake.Wait()
		}
		if f.closed {
			f.mu.Unlock()
			return
		}
		s := heap.Pop(&f.steps).(step)
		f.now = max(f.now, s.at)
		f.mu.Unlock()
		s.do()
	}
}

// arrived counts an arrival and lets the fault of the options happen.
func (f *Fabric) arrived() {
	f.mu.Lock()
	f.arrivals++
	var victims []*Peer
	why := ""
	if f.arrivals == f.opt.Break {
		if at := f.pick(); at != nil {
			victims, why = []*Peer{at}, "the connection was lost"
		}
	}
	dead := ""
	if f.arrivals == f.opt.Die && len(f.order) > 0 {
		dead = f.order[f.rng.IntN(len(f.order))]
	}
	f.mu.Unlock()
	for _, p := range victims {
		p.lost(fmt.Errorf("%w: netfake: %s", transport.ErrPeerGone, why))
	}
	if dead != "" {
		f.Kill(dead)
	}
}

// pick chooses a connected half. The caller holds mu.
func (f *Fabric) pick() *Peer {
	var ids []uint64
	for id := range f.next {
		if p := f.halves[id+1]; p != nil && p.other != nil {
			ids = append(ids, id+1)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return f.halves[ids[f.rng.IntN(len(ids))]]
}

// Kill ends a host: its connections are lost, at both ends, and it makes no others.
func (f *Fabric) Kill(host string) {
	f.mu.Lock()
	var victims []*Peer
	for _, p := range f.halves {
		if p.port.net.host == host {
			victims = append(victims, p)
		}
	}
	if n := f.nets[host]; n != nil {
		n.dead = true
	}
	f.mu.Unlock()
	for _, p := range victims {
		p.lost(fmt.Errorf("%w: netfake: host %s died", transport.ErrPeerGone, host))
	}
}

// Arrivals returns how many puts have arrived in the whole fabric.
func (f *Fabric) Arrivals() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.arrivals
}

// Broken reports whether a fault of the options may have happened.
func (f *Fabric) Broken() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opt.Break > 0 && f.arrivals >= f.opt.Break || f.opt.Die > 0 && f.arrivals >= f.opt.Die
}

// Close ends every Peer and the fabric.
func (f *Fabric) Close() {
	f.mu.Lock()
	f.closed = true
	halves := make([]*Peer, 0, len(f.halves))
	for _, p := range f.halves {
		halves = append(halves, p)
	}
	f.wake.Broadcast()
	f.mu.Unlock()
	f.wg.Wait()
	for _, p := range halves {
		p.fail(transport.ErrClosed)
	}
	for len(f.steps) > 0 { // the puts end with the error of their Peers
		heap.Pop(&f.steps).(step).do()
	}
}
