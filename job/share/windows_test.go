package share

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
)

// member is one rank with its windows.
type member struct {
	*Windows
	dev *failing
}

func members(t *testing.T, n int) []*member {
	t.Helper()
	all := make([]*member, n)
	for r, b := range bootstrap.NewLocalGroup(n) {
		dev := &failing{Device: open(t)}
		all[r] = &member{NewWindows(b, 4, dev, 20*time.Second), dev}
		t.Cleanup(func() {
			if err := errors.Join(all[r].Close(), b.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	return all
}

func (m *member) register(t *testing.T, p device.Ptr, n int64) *Window {
	t.Helper()
	w, err := m.Register(p, n)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// eventually waits, with a bound, for a result of background goroutines.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// If one rank cannot share or map a part, no rank uses the window; the next window works again.
func TestWindowsAgree(t *testing.T) {
	const n, size = 4, 1 << 16
	all := members(t, n)
	for _, c := range []struct {
		name            string
		exports, maps   bool // rank 2 can
		less, room      int64
		usable, mistake bool
	}{
		{"all", true, true, 0, size, true, false},
		{"rank 2 maps none", true, false, 0, size, false, false},
		{"rank 2 exports none", false, true, 0, size, false, false},
		{"rank 1 has less", true, true, 0, size - 8192, false, false},
		{"rank 1 registers less", true, true, 8, size, false, true},
		{"all again", true, true, 0, size, true, false},
	} {
		open := make([]*Window, n)
		for r, m := range all {
			m.dev.imports, m.dev.exports = r == 2 && !c.maps, r == 2 && !c.exports
			room, bytes := int64(size), int64(size)
			if r == 1 {
				room, bytes = c.room, size-c.less
			}
			open[r] = m.register(t, alloc(t, m.dev, room), bytes)
		}
		for r, w := range open {
			usable, err := w.Await()
			if usable != c.usable || errors.Is(err, fault.ErrMismatch) != c.mistake || err != nil && !c.mistake {
				t.Errorf("%s: rank %d: usable %v, %v", c.name, r, usable, err)
			}
			if c.mistake && (fault.PeerOf(err) != 1 && r != 1 || fault.PeerOf(err) == r ||
				!strings.Contains(err.Error(), "window 4")) {
				t.Errorf("%s: rank %d blames %d: %v", c.name, r, fault.PeerOf(err), err)
			}
		}
		for _, w := range open {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// The wait for windows ends: with an error that names the rank that registered none, or with the communicator.
func TestWindowsMissing(t *testing.T) {
	all := members(t, 3)
	var w *Window
	for r, m := range all[:2] {
		m.limit = 50 * time.Millisecond
		if o := m.register(t, alloc(t, m.dev, 4096), 4096); r == 0 {
			w = o
		}
	}
	eventually(t, "rank 1 is there", func() bool {
		all[0].mu.Lock()
		defer all[0].mu.Unlock()
		return w.records[roundOffer][1] != nil
	})
	_, err := w.Await()
	if !errors.Is(err, bootstrap.ErrTimeout) || fault.PeerOf(err) != 2 || !strings.Contains(err.Error(), "window 0") ||
		!strings.Contains(err.Error(), "rank 2") {
		t.Errorf("%v", err)
	}
	all[0].limit = time.Hour
	done := make(chan error)
	go func() {
		_, err := w.Await()
		done <- err
	}()
	all[0].Abandon()
	if err := <-done; !errors.Is(err, fault.ErrAborted) {
		t.Errorf("%v", err)
	}
	if _, err := all[0].Register(4096, 8); !errors.Is(err, fault.ErrAborted) {
		t.Errorf("%v", err)
	}
}

// Register many windows in varying address order; no rank uses those that overlap on a rank.
func TestManyWindows(t *testing.T) {
	const many, size, n = 40, 3 << 12, 3
	all := members(t, n)
	mem, open := make([][]device.Ptr, n), make([][]*Window, n)
	for r, m := range all {
		block := alloc(t, m.dev, many*size)
		for i := range many {
			at := (i * (2*r + 1) * 7) % many
			if (2*r+1)%5 == 0 {
				at = many - 1 - i
			}
			p := block.Add(int64(at) * size)
			mem[r], open[r] = append(mem[r], p), append(open[r], m.register(t, p, size))
		}
	}
	for r, m := range all {
		for i := range many {
			w := m.Find(mem[r][i].Add(5), size-5)
			if w != open[r][i] {
				t.Fatalf("rank %d: window %d is not found", r, i)
			}
			if usable, err := w.Await(); !usable || err != nil {
				t.Fatalf("rank %d: window %d usable %v, %v", r, i, usable, err)
			}
			for p := range all {
				if got := w.Parts().Ptr[p]; got != mem[p][i] {
					t.Errorf("rank %d has window %d of rank %d at %#x, want %#x", r, i, p, got, mem[p][i])
				}
			}
		}
		if m.Find(mem[r][0].Add(1), size) != nil {
			t.Error("a window is found for memory that exceeds it")
		}
	}
	for r, m := range all {
		p := alloc(t, m.dev, size)
		if r == 1 {
			p = mem[r][3].Add(size - 1)
		}
		w := m.register(t, p, 2)
		if open[r] = append(open[r], w); r == 1 && m.Find(p, 1) != open[r][3] {
			t.Error("an overlapping window has taken the place of one before it")
		}
	}
	for r := range all {
		if usable, err := open[r][many].Await(); usable || err != nil {
			t.Errorf("rank %d: the window that overlaps: usable %v, %v", r, usable, err)
		}
	}
	for r := range all {
		for _, w := range open[r] {
			if err := errors.Join(w.Close(), w.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	eventually(t, "all is forgotten", func() bool {
		for _, m := range all {
			m.mu.Lock()
			n := len(m.byNumber) + len(m.open)
			m.mu.Unlock()
			if n > 0 {
				return false
			}
		}
		return true
	})
}

// Close of a window also closes its mappings. A window that a peer has closed gives an error that names the peer.
func TestWindowClose(t *testing.T) {
	all := members(t, 2)
	before := Mapped()
	open := make([]*Window, 2)
	for r, m := range all {
		open[r] = m.register(t, alloc(t, m.dev, 4096), 4096)
	}
	for want, w := range open {
		if usable, err := w.Await(); !usable || err != nil {
			t.Fatal(want, err)
		}
	}
	for want := 2; want > 0; want-- {
		if got := Mapped(); got != before+want {
			t.Errorf("%d mappings, want %d", got-before, want)
		}
		if err := open[2-want].Close(); err != nil {
			t.Fatal(err)
		}
		if want == 2 {
			eventually(t, "the peer knows", func() bool { _, err := open[1].Await(); return err != nil })
			if _, err := open[1].Await(); !errors.Is(err, fault.ErrMismatch) || fault.PeerOf(err) != 0 {
				t.Errorf("%v", err)
			}
		}
	}
	if got := Mapped(); got != before {
		t.Errorf("%d mappings are left", got-before)
	}
}

// A window that is closed before the exchange ends, its memory freed, leaves nothing behind, and the next one works.
func TestWindowClosedAtOnce(t *testing.T) {
	all := members(t, 3)
	before := Mapped()
	for range 20 {
		for _, m := range all {
			a, err := m.dev.Alloc(4096)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(m.register(t, a.Ptr(), 4096).Close(), a.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	var last []*Window
	for _, m := range all {
		last = append(last, m.register(t, alloc(t, m.dev, 4096), 4096))
	}
	for r, w := range last {
		if usable, err := w.Await(); !usable || err != nil {
			t.Errorf("rank %d: usable %v, %v", r, usable, err)
		}
	}
	eventually(t, "only the last is mapped", func() bool { return Mapped() == before+len(all)*(len(all)-1) })
}

// Windows that were not closed end with the communicator, and closing them later is harmless; so do windows registered
// just before. After an abort their parts stay mapped until then.
func TestWindowsEndWithTheCommunicator(t *testing.T) {
	before := Mapped()
	all := members(t, 3)
	var open []*Window
	for range 3 {
		for _, m := range all {
			open = append(open, m.register(t, alloc(t, m.dev, 4096), 4096))
		}
	}
	for _, w := range open[:3] {
		if usable, err := w.Await(); !usable || err != nil {
			t.Fatal(err)
		}
	}
	all[1].Abandon()
	if err := open[1].Close(); err != nil || open[1].parts == nil {
		t.Errorf("closing a window after an abort unmaps it (%v)", err)
	}
	for _, m := range all {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, w := range open {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := Mapped(); got != before {
		t.Errorf("%d mappings are left", got-before)
	}
}

// Messages that are malformed, or come twice, change nothing.
func TestWindowMessages(t *testing.T) {
	all := members(t, 2)
	m := all[0]
	w := m.register(t, alloc(t, m.dev, 4096), 4096)
	for _, b := range [][]byte{nil, []byte("junk, and more of it"), make([]byte, 64)} {
		if err := m.handle(1, b); err == nil {
			t.Errorf("%q is accepted", b)
		}
	}
	other := all[1].register(t, alloc(t, all[1].dev, 4096), 4096)
	if usable, err := w.Await(); !usable || err != nil {
		t.Fatal(err)
	}
	all[1].send(0, roundOffer, []byte("another"))
	if usable, err := other.Await(); !usable || err != nil {
		t.Fatal(err)
	}
}
