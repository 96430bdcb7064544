package cudawire

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/hostreduce"
)

// emulator runs the launches of one rank as kernels/hosts/wire.cuh does, in Go: the mock driver runs no kernels.
type emulator struct {
	w        *Wire
	launches chan args
	types    chan datatype.Type
	done     sync.WaitGroup
	delay    time.Duration // before each launch
}

func emulate(t testing.TB, w *Wire) *emulator {
	e := &emulator{w: w, launches: make(chan args, 1024), types: make(chan datatype.Type, 1024)}
	w.captured.Store(true) // the driver does not see this work
	w.start = func(_ *cuda.Stream, _ *cuda.Function, cfg *cuda.Config, params []byte) error {
		if want := uint32(w.build.tasks) * w.build.width; cfg.Grid[0] != want {
			t.Errorf("%d blocks for %d tasks of %d", cfg.Grid[0], w.build.tasks, w.build.width)
		}
		a := *w.build.args
		if len(params) == int(unsafe.Sizeof(fewArgs{})) {
			f := (*fewArgs)(unsafe.Pointer(unsafe.SliceData(params)))
			a = args{head: f.head}
			copy(a.task[:], f.task[:])
			copy(a.item[:], f.item[:])
			copy(a.reduction[:], f.reduction[:])
			copy(a.peers[:], f.peers[:])
		}
		for i := w.build.tasks; i < len(a.task); i++ {
			a.task[i] = task{}
		}
		e.done.Add(1)
		e.types <- w.build.kernel
		e.launches <- a
		return nil
	}
	go func() {
		for a := range e.launches {
			time.Sleep(e.delay)
			e.run(&a, <-e.types)
			e.done.Done()
		}
	}()
	return e
}

// run runs a launch: a goroutine for each block.
func (e *emulator) run(a *args, ty datatype.Type) {
	var blocks sync.WaitGroup
	for _, t := range a.task {
		for b := range a.width {
			if t.count > 0 {
				blocks.Go(func() { e.block(a, t, b, ty) })
			}
		}
	}
	blocks.Wait()
}

func (e *emulator) block(a *args, t task, b uint32, ty datatype.Type) {
	for i := range t.count {
		x := &a.item[t.first+i]
		if x.kind >= kindSendCounted {
			side := x.kind - kindSendCounted
			count := *at[int64](a.counts[side] + 8*uint64(x.peer))
			displ := *at[int64](a.displs[side] + 8*uint64(x.peer))
			x = &item{at: x.at + uint64(displ)*x.bytes, bytes: uint64(count) * x.bytes, peer: x.peer, kind: side}
		}
		_, chunks := e.w.geo.chunks(int64(x.bytes))
		for lane := int64(b); lane < min(e.w.geo.lanes, chunks); lane += int64(a.width) {
			if !e.item(a, x, lane, ty) {
				return
			}
		}
	}
}

// ring is a lane of a link.
type ring struct {
	e    *emulator
	l    *linkWords
	lane int64
	tag  uint64
}

func at[T any](p uint64) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) }

func (e *emulator) ring(a *args, peer uint32, lane int64) ring {
	return ring{e, at[linkWords](a.links + 64*uint64(peer)), lane, a.tag}
}

func (r ring) counters() *[4]uint64 {
	return at[[4]uint64](r.l.counters + uint64(r.lane)*uint64(counterBytes))
}
func (r ring) index(k uint64) uint64 {
	return uint64(r.lane*r.e.w.geo.slots) + k%uint64(r.e.w.geo.slots)
}
func (r ring) slot(rings uint64, k uint64) []byte {
	g := r.e.w.geo
	return device.Bytes(device.Ptr(rings+r.index(k)*uint64(g.slotBytes)), g.slotBytes)
}

func (r ring) wait(word uint64, ready func(v uint64) bool) bool {
	w := at[atomic.Uint64](word)
	for !ready(w.Load()) {
		if r.e.w.launcher.Abort.Abort.Load() != 0 {
			return false
		}
		runtime.Gosched()
	}
	return true
}

func (r ring) send(b []byte) bool {
	c, slots := r.counters(), uint64(r.e.w.geo.slots)
	k := c[0]
	if !r.wait(r.l.credit+8*uint64(r.lane), func(v uint64) bool { return k-v < slots }) {
		return false
	}
	s := r.slot(r.l.send, k)
	*(*uint32)(unsafe.Pointer(&s[0])), *(*uint64)(unsafe.Pointer(&s[8])) = uint32(len(b)), r.tag
	copy(s[header:], b)
	at[atomic.Uint64](r.l.post + 8*r.index(k)).Store((k/slots+1)<<32 | uint64(len(b)+header))
	c[0]++
	return true
}

// recv waits for a chunk of n bytes; free gives its slot back.
func (r ring) recv(n int64) (b []byte, free func()) {
	c, slots := r.counters(), uint64(r.e.w.geo.slots)
	k := c[2]
	if !r.wait(r.l.flag+8*r.index(k), func(v uint64) bool { return v >= k/slots+1 }) {
		return nil, nil
	}
	s := r.slot(r.l.recv, k)
	tag := *(*uint64)(unsafe.Pointer(&s[8]))
	if *(*uint32)(unsafe.Pointer(&s[0])) != uint32(n) || tag != r.tag && tag != 0 && r.tag != 0 {
		word := r.e.w.launcher.Abort
		word.Peer.Store(uint32(r.l.peer))
		word.Reported.Store(abort.Mismatch)
		return nil, nil
	}
	c[2]++
	return s[header : header+n], func() {
		if (k+1)%r.e.w.geo.half() == 0 {
			at[atomic.Uint64](r.l.taken + 8*uint64(r.lane)).Store(k + 1)
		}
	}
}

func (e *emulator) item(a *args, x *item, lane int64, ty datatype.Type) bool {
	g := e.w.geo
	size, chunks := g.chunks(int64(x.bytes))
	for i := lane; i < chunks; i += g.lanes {
		n := min(size, int64(x.bytes)-i*size)
		here := device.Bytes(device.Ptr(x.at).Add(i*size), n)
		switch x.kind {
		case kindSend:
			if !e.ring(a, x.peer, lane).send(here) {
				return false
			}
			if x.leads != ownStays {
				e.ring(a, x.peer, lane).passed().Store(uint64(i/g.lanes) + 1)
			}
		case kindRecv:
			b, free := e.ring(a, x.peer, lane).recv(n)
			if free == nil {
				return false
			}
			copy(here, b)
			free()
		case kindReduce:
			if !e.fold(a, x, i*size, here, lane, uint64(i/g.lanes), ty) {
				return false
			}
		}
	}
	if x.kind == kindReduce && a.reduction[x.peer].moves == ownLeads {
		r := &a.reduction[x.peer]
		for _, p := range a.peers[r.first : r.first+r.count] {
			if p&localPeer == 0 {
				e.ring(a, uint32(p), lane).passed().Store(0)
			}
		}
	}
	return true
}

func (r ring) passed() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&r.counters()[3])) }

func (e *emulator) fold(a *args, x *item, off int64, dst []byte, lane int64, done uint64, ty datatype.Type) bool {
	n, r, stride := int64(len(dst)), &a.reduction[x.peer], int64(x.bytes+15)&^15
	operand := func(p uint16) []byte { return device.Bytes(device.Ptr(r.own).Add(off+int64(p&^localPeer)*stride), n) }
	peers := a.peers[r.first : r.first+r.count]
	if r.moves == ownSent {
		for _, p := range peers {
			if p&localPeer == 0 && !e.ring(a, uint32(p), lane).send(operand(0)) {
				return false
			}
		}
	}
	var srcs [][]byte
	var frees []func()
	for _, p := range peers {
		if p&localPeer != 0 {
			srcs = append(srcs, slices.Clone(operand(p)))
			continue
		}
		q := e.ring(a, uint32(p), lane)
		b, free := q.recv(n)
		if free == nil {
			return false
		}
		passed := func(v uint64) bool { return v > done }
		if r.moves == ownLeads && !q.wait(uint64(uintptr(unsafe.Pointer(q.passed()))), passed) {
			return false
		}
		srcs, frees = append(srcs, b), append(frees, free)
	}
	if err := hostreduce.Reduce(dst, srcs, ty, datatype.Op(r.op&7), [8]byte{}, int(r.ranks)); err != nil {
		panic(err)
	}
	for _, f := range frees {
		f()
	}
	return true
}
