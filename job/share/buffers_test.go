package share

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport/wire"
)

// owner is one rank with its buffers, on the host device. That device is no GPU, so the test adds what GPUs answer.
type owner struct {
	*Buffers
	*host.Device
	noExport, noImport atomic.Bool
	exports            atomic.Int32
	free               atomic.Int64 // of 1000 bytes
	freed              sync.Map     // Unique of freed memory, which lives on while ranks of the process have mapped it
}

// release frees an allocation.
func (o *owner) release(t *testing.T, a device.Allocation) {
	t.Helper()
	r, err := o.Lookup(a.Ptr())
	o.freed.Store(r.Unique, true)
	if err := errors.Join(err, a.Close()); err != nil {
		t.Fatal(err)
	}
}

func (o *owner) Close() error { return o.Buffers.Close() }

func (o *owner) Region(p device.Ptr) (base device.Ptr, size int64, unique uint64, ok bool) {
	r, err := o.Lookup(p)
	_, freed := o.freed.Load(r.Unique)
	return r.Base, r.Size, r.Unique, err == nil && r.Shareable && !freed
}

func (o *owner) MemoryInfo() (free, total int64, err error) { return o.free.Load(), 1000, nil }

func (o *owner) Export(p device.Ptr) (device.Handle, error) {
	o.exports.Add(1)
	if o.noExport.Load() {
		return device.Handle{}, errRefused
	}
	return o.Device.Export(p)
}

func (o *owner) Import(h device.Handle) (device.Allocation, error) {
	if o.noImport.Load() {
		return nil, errRefused
	}
	return o.Device.Import(h)
}

func owners(t *testing.T, n int) []*owner {
	t.Helper()
	before := Mapped()
	t.Cleanup(func() {
		if got := Mapped(); got != before {
			t.Errorf("%d mappings are left", got-before)
		}
	})
	all := make([]*owner, n)
	for r, b := range bootstrap.NewLocalGroup(n) {
		all[r] = &owner{Device: open(t)}
		all[r].free.Store(1000)
		all[r].Buffers = NewBuffers(b, 4, all[r])
		t.Cleanup(func() {
			if err := errors.Join(all[r].Close(), b.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	return all
}

func always() bool { return true }
func never() bool  { return false }

// settled waits until a rank has run its tasks, and the peers theirs, a few times in turn.
func settled(t *testing.T, all []*owner) {
	t.Helper()
	for range 4 {
		for _, o := range all {
			done := make(chan struct{})
			o.mu.Lock()
			o.later(func() { close(done) })
			o.mu.Unlock()
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				t.Fatal("a rank does not run its tasks")
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The first use of an allocation begins to share it; later ones find the addresses, at any offset, with one export.
func TestBuffersAtFirstUse(t *testing.T) {
	all := owners(t, 4)
	at := make([]uint64, 4)
	for r, o := range all {
		p := alloc(t, o, 1<<16)
		o.At(p.Add(100), 50, at) // true if the peers are faster than this rank's thread
		if !o.Await(p.Add(200), 1<<16-200, at, time.Minute) || !o.At(p.Add(300), 8, at) {
			t.Fatal("a buffer is not mapped")
		}
		for q, got := range at {
			if got != uint64(p.Add(300)) {
				t.Errorf("rank %d is told %#x for rank %d, want %#x", r, got, q, uintptr(p.Add(300)))
			}
		}
		if o.At(p.Add(300), 1<<16, at) || o.At(64, 8, at) || o.Await(64, 8, at, time.Minute) {
			t.Error("memory beyond the allocation is mapped")
		}
		if n := o.exports.Load(); n != 1 {
			t.Errorf("%d exports", n)
		}
	}
}

// Memory at an address that was used before is other memory.
func TestBuffersFreed(t *testing.T) {
	all := owners(t, 3)
	before := Mapped()
	o, at := all[0], make([]uint64, 3)
	a, err := o.Alloc(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	p := a.Ptr()
	for round := range 3 {
		o.At(p, 8, at) // true if the peers are faster than this rank's thread
		if !o.Await(p, 8, at, time.Minute) || at[1] != uint64(p) {
			t.Fatalf("round %d: not mapped", round)
		}
		if n := o.exports.Load(); n != int32(round)+1 {
			t.Fatalf("round %d: new memory is mapped already: %d exports", round, n)
		}
		if err := o.Revoke(p, 1<<16); err != nil { // other memory at the same address
			t.Fatal(err)
		}
	}
	o.release(t, a)
	if o.At(p, 8, at) {
		t.Error("freed memory is mapped")
	}
	o.Sweep(never)
	settled(t, all)
	for _, m := range all {
		m.Sweep(never)
	}
	if got := Mapped(); got == before {
		t.Error("memory is unmapped while kernels run")
	}
	eventually(t, "freed memory is unmapped", func() bool {
		for _, m := range all {
			m.Sweep(always)
		}
		return Mapped() == before
	})
	if len(o.own)+len(o.byNumber) > 0 {
		t.Errorf("%d freed allocations are remembered", len(o.own)+len(o.byNumber))
	}
}

// Sweep asks again before each unmapping, since a kernel may have begun.
func TestBuffersUnmapWhileIdle(t *testing.T) {
	all := owners(t, 2)
	before := Mapped()
	at := make([]uint64, 2)
	for range 3 {
		a, err := all[0].Alloc(4096)
		if err != nil {
			t.Fatal(err)
		}
		if !all[0].Await(a.Ptr(), 8, at, time.Minute) {
			t.Fatal("not mapped")
		}
		all[0].release(t, a)
	}
	all[0].Sweep(never)
	eventually(t, "the peer knows", func() bool {
		all[1].mu.Lock()
		defer all[1].mu.Unlock()
		return len(all[1].retired) == 3
	})
	for want := 2; want >= 0; want-- {
		asked := 0
		all[1].Sweep(func() bool { asked++; return asked <= 1 })
		if got := Mapped() - before; got != want {
			t.Errorf("%d allocations are mapped, want %d", got, want)
		}
	}
}

// Memory that a rank cannot export, or a peer cannot map, is never used, tried once, and holds up nothing else.
func TestBuffersThatCannotBeShared(t *testing.T) {
	all := owners(t, 4)
	before := Mapped()
	o, at := all[0], make([]uint64, 4)
	for name, flag := range map[string]*atomic.Bool{"export": &o.noExport, "map": &all[2].noImport} {
		flag.Store(true)
		p, tried := alloc(t, o, 4096), o.exports.Load()
		if o.Await(p, 8, at, time.Minute) {
			t.Errorf("%s: memory is used", name)
		}
		flag.Store(false)
		for range 10 {
			if o.Await(p, 8, at, time.Minute) {
				t.Errorf("%s: memory is used later", name)
			}
		}
		if n := o.exports.Load() - tried; n != 1 {
			t.Errorf("%s: %d exports", name, n)
		}
	}
	eventually(t, "no peer maps memory that is not used", func() bool {
		for _, m := range all {
			m.Sweep(always)
		}
		return Mapped() == before
	})
	if !o.Await(alloc(t, o, 4096), 8, at, time.Minute) {
		t.Error("the next allocation is not mapped")
	}
}

// With little free memory no buffers are shared. The next Sweep looks again.
func TestBuffersWithLittleMemory(t *testing.T) {
	o, at := owners(t, 2)[0], make([]uint64, 2)
	o.free.Store(60)
	p := alloc(t, o, 4096)
	if o.Await(p, 8, at, time.Minute) || o.exports.Load() != 0 {
		t.Error("memory is shared while there is little of it")
	}
	o.free.Store(1000)
	eventually(t, "there is memory again", func() bool {
		o.Sweep(never)
		return o.Await(p, 8, at, time.Minute)
	})
	if o.At(p, 1<<20, at) || o.At(64, 8, at) {
		t.Error("memory that does not exist is shared")
	}
}

// Close ends waits and leaves no mapping, also while offers are on their way.
func TestBuffersClose(t *testing.T) {
	before := Mapped()
	for round := range 20 {
		all := owners(t, 3)
		at := make([]uint64, 3)
		for _, o := range all {
			for range 5 {
				o.At(alloc(t, o, 4096), 8, at)
			}
		}
		time.Sleep(time.Duration(round) * 20 * time.Microsecond)
		all[1].Abandon()
		if p := alloc(t, all[1], 4096); all[1].Await(p, 8, at, time.Hour) {
			t.Error("memory is shared after the end")
		}
		for _, o := range all {
			if err := errors.Join(o.Close(), o.Close()); err != nil {
				t.Error(err)
			}
			o.Sweep(always)
			if o.At(alloc(t, o, 4096), 8, at) {
				t.Error("memory is shared after Close")
			}
		}
	}
	if got := Mapped(); got != before {
		t.Errorf("%d mappings are left", got-before)
	}
	var none *Buffers
	none.Abandon()
	none.Halt()
	none.Sweep(always)
	if none.At(64, 8, nil) || none.Await(64, 8, nil, time.Minute) || none.Close() != nil {
		t.Error("no buffers do something")
	}
}

// The peers' wait for a rank that is silent has a bound.
func TestBuffersOfSilentPeer(t *testing.T) {
	all := owners(t, 2)
	all[1].Halt()
	if p := alloc(t, all[0], 4096); all[0].Await(p, 8, make([]uint64, 2), time.Millisecond) {
		t.Error("a peer that has left maps memory")
	}
}

// Malformed messages change nothing; neither do answers to questions that nobody asks.
func TestBuffersMessages(t *testing.T) {
	all := owners(t, 2)
	o, at := all[0], make([]uint64, 2)
	p := alloc(t, o, 4096)
	for _, m := range [][]byte{nil, []byte("junk, and more of it"), make([]byte, 64)} {
		if err := o.handle(1, m); err == nil {
			t.Errorf("%q is accepted", m)
		}
	}
	if !o.Await(p, 8, at, time.Minute) {
		t.Fatal("not mapped")
	}
	desc, revoke, err := Export(o, p)
	if err != nil {
		t.Fatal(err)
	}
	defer revoke()
	if err := all[1].accept(0, o.last, &desc); err == nil {
		t.Error("an offer is accepted twice")
	}
	for _, number := range []uint32{o.last, 77} {
		all[1].mu.Lock()
		for _, what := range []uint8{bufferMapped, bufferFreed} {
			all[1].later(func() {
				all[1].send(what, number, 0, func(w *wire.Writer) {
					if what == bufferMapped {
						w.U64(1)
					}
				})
			})
		}
		all[1].mu.Unlock()
	}
	settled(t, all)
	if !o.At(p, 8, at) || at[1] != uint64(p) {
		t.Errorf("the address is %#x, want %#x", at[1], uintptr(p))
	}
}
