package share

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
)

// directories returns the directories of n ranks, one device each.
func directories(t *testing.T, n int) (all []*Directory, devs []*host.Device) {
	t.Helper()
	var tables []device.Ptr
	for range n {
		devs = append(devs, open(t))
		tables = append(tables, alloc(t, devs[0], DirectoryBytes))
	}
	for r, d := range devs {
		all = append(all, NewDirectory(d, r, tables))
		t.Cleanup(func() {
			if err := all[r].Close(); err != nil {
				t.Error(err)
			}
			if entries, mappings := all[r].Live(); entries+mappings != 0 {
				t.Errorf("%d entries and %d mappings after Close", entries, mappings)
			}
		})
	}
	return all, devs
}

// A peer maps what a place names. Memory that peers cannot map, or from which they could not be kept away, has no
// place.
func TestDirectoryPlaces(t *testing.T) {
	all, devs := directories(t, 2)
	owner, peer := all[0], all[1]
	p := alloc(t, devs[0], 3<<12)
	exported := alloc(t, devs[0], 1<<12)
	h, err := devs[0].Export(exported)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(h.FD); err != nil {
		t.Fatal(err)
	}
	registered, err := devs[0].Register(make([]byte, 1<<12))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		p       device.Ptr
		n       int64
		written bool
		want    bool
	}{
		"to read":                  {p.Add(100), 50, false, true},
		"to write":                 {p.Add(1 << 12), 1 << 12, true, true},
		"to write within a page":   {p.Add(100), 50, true, false},
		"beyond the end":           {p.Add(100), 3 << 12, false, false},
		"exported by the user":     {exported, 1 << 12, true, false},
		"exported, but only read":  {exported, 1 << 12, false, true},
		"memory of Go":             {registered.Ptr(), 1 << 12, false, false},
		"memory that nobody knows": {8, 8, false, false},
	} {
		at := owner.Place(c.p, c.n, 0, c.written)
		if at.Number != 0 != c.want {
			t.Errorf("%s: %+v", name, at)
		}
		if !c.want {
			continue
		}
		// Host memory has one address in a process.
		if peer.Learn(t.Context(), 0) < at.Number || peer.At(0, at, c.n) != c.p {
			t.Errorf("%s: mapped at %#x, want %#x", name, peer.At(0, at, c.n), c.p)
		}
		if peer.At(0, at, 1<<20) != 0 || peer.At(0, Place{at.Number, 1 << 63}, 1) != 0 || peer.At(0, at, -1) != 0 {
			t.Errorf("%s: there is more than the allocation", name)
		}
	}
}

// Memory that was freed or revoked is unmapped by the peers, but not while they hold it. (Within a process, a peer's
// mapping is a reference to the memory, so memory freed here was never mapped.)
func TestDirectorySweep(t *testing.T) {
	all, devs := directories(t, 2)
	owner, peer := all[0], all[1]
	before := Mapped()
	freed, err := devs[0].Alloc(1 << 12)
	if err != nil {
		t.Fatal(err)
	}
	taken := alloc(t, devs[0], 1<<12)
	first, second := owner.Place(taken, 1<<12, 0, true), owner.Place(freed.Ptr(), 8, 0, false)
	held, err := peer.Hold(0, first.Number, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	owner.Sweep()
	if entries, _ := owner.Live(); entries != 2 {
		t.Fatalf("%d entries, but nothing was freed", entries)
	}
	if err := errors.Join(freed.Close(), devs[0].Revoke(taken, 1<<12)); err != nil {
		t.Fatal(err)
	}
	owner.Sweep()
	peer.Sweep()
	if entries, _ := owner.Live(); entries != 0 || Mapped() != before+1 || held.At(0, 8) == 0 {
		t.Fatalf("%d entries, %d mapped", entries, Mapped()-before)
	}
	peer.Release(held)
	peer.Sweep()
	if Mapped() != before {
		t.Errorf("%d are still mapped", Mapped()-before)
	}
	if _, err := peer.Hold(0, first.Number, time.Minute); !errors.Is(err, errRetired) {
		t.Errorf("a retired entry: %v", err)
	}
	third := owner.Place(taken, 1<<12, 0, true)
	if third.Number <= second.Number || peer.Learn(t.Context(), 0) != third.Number || peer.At(0, third, 8) != taken {
		t.Errorf("memory that was revoked is at %+v", third)
	}
}

// A full table drops the oldest entry, but never the one to keep. Peers agree with the owner all the time.
func TestDirectoryFull(t *testing.T) {
	all, devs := directories(t, 3)
	owner := all[0]
	keep := owner.Place(alloc(t, devs[0], 8), 8, 0, false)
	live := map[uint32]device.Ptr{}
	for i := range 3 * directorySlots {
		p := alloc(t, devs[0], 8)
		at := owner.Place(p, 8, keep.Number, false)
		live[at.Number] = p
		for r, peer := range all[1:] {
			if (i+r)%7 != 0 { // some lag behind
				continue
			}
			if got := peer.Learn(t.Context(), 0); got != at.Number {
				t.Fatalf("rank %d knows %d of %d entries", r+1, got, at.Number)
			}
			peer.Sweep()
			if _, mappings := peer.Live(); mappings > directorySlots {
				t.Fatalf("%d mappings", mappings)
			}
		}
		if at.Number%directorySlots == keep.Number%directorySlots {
			t.Fatal("the entry to keep is overwritten")
		}
	}
	for n, p := range live {
		for r, peer := range all[1:] {
			h, err := peer.Hold(0, n, time.Minute)
			gone := owner.last-n >= directorySlots
			if gone && peer.At(0, Place{Number: n}, 8) == 0 && !errors.Is(err, errRetired) ||
				!gone && (err != nil || h.At(0, 8) != p) {
				t.Errorf("rank %d, entry %d of %d: %v", r+1, n, owner.last, err)
			}
		}
	}
	if entries, _ := owner.Live(); entries != directorySlots {
		t.Errorf("%d entries", entries)
	}
}

// What peers write in their tables is not trusted.
func TestDirectoryJunk(t *testing.T) {
	all, devs := directories(t, 2)
	owner, peer := all[0], all[1]
	good := owner.Place(alloc(t, devs[0], 8), 8, 0, false)
	for i, spoil := range []func(*slot){
		func(s *slot) { s.size = 1 << 31 },
		func(s *slot) { s.size = 3 },
		func(s *slot) { s.body[40]++ },
	} {
		at := owner.Place(alloc(t, devs[0], 8), 8, 0, false)
		spoil(owner.tables[0].of(at.Number))
		if _, err := peer.Hold(0, at.Number, time.Minute); err == nil || errors.Is(err, errRetired) {
			t.Errorf("%d: %v", i, err)
		}
		if got := peer.Learn(t.Context(), 0); got != good.Number {
			t.Errorf("%d: entries up to %d are known", i, got)
		}
	}
	if _, err := peer.Hold(0, 77, time.Minute); !errors.Is(err, errRetired) {
		t.Errorf("no entry: %v", err)
	}
}
