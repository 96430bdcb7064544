package cuda

import (
	"errors"
	"runtime"
	"testing"

	"github.com/goccl/goccl/device"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func streams(t testing.TB, d *Device, n int) (all []*Stream) {
	t.Helper()
	for range n {
		s, err := d.NewStreamPriority(0)
		must(t, err)
		all = append(all, s)
	}
	return all
}

// memory is a page of words and a stream to read them.
func memory(t testing.TB, d *Device) (device.Ptr, func(i int64) byte) {
	t.Helper()
	m, err := d.Alloc(4096)
	must(t, err)
	return m.Ptr(), func(i int64) byte {
		t.Helper()
		var b [1]byte
		must(t, d.CopyOut(b[:], m.Ptr().Add(8*i)))
		return b[0]
	}
}

func forked(t testing.TB, x *Side, s *Stream) bool {
	t.Helper()
	ok, err := x.Fork(s)
	must(t, err)
	return ok
}

func begun(t testing.TB, x *Side) *Stream {
	t.Helper()
	s, err := x.Begin()
	must(t, err)
	return s
}

// The side work runs after the fork, concurrent with the work that follows the fork, and before the work that follows
// the join.
func TestSideOrder(t *testing.T) {
	const gate, before, main, aside, joined = 0, 1, 2, 3, 4
	d := open(t, 0)
	x, err := d.NewSide()
	must(t, err)
	s := streams(t, d, 2)
	p, word := memory(t, d)
	at := func(i int64) device.Ptr { return p.Add(8 * i) }
	openUp := func(v uint64) { must(t, s[1].WriteValue64(at(gate), v), s[1].Synchronize(bounded(t))) }
	for round := range uint64(3) {
		v, g := round+1, 4*round
		must(t, s[0].WaitValue64(at(gate), g+1), s[0].WriteValue64(at(before), v))
		if !forked(t, x, s[0]) {
			t.Fatal("no fork of an idle side")
		}
		// before Begin
		must(t, s[0].WriteValue64(at(main), v), s[0].WaitValue64(at(gate), g+2), s[0].WriteValue64(at(main), v+10))
		side := begun(t, x)
		must(t, side.WriteValue64(at(aside), v), side.WaitValue64(at(gate), g+3), side.WriteValue64(at(aside), v+10),
			x.Join(s[0]), s[0].WriteValue64(at(joined), v))
		if word(before) == byte(v) || word(aside) == byte(v) {
			t.Errorf("round %d: the side has not waited for the fork", round)
		}
		openUp(g + 1)
		must(t, poll(bounded(t), func() (bool, error) { return word(aside) == byte(v), nil }))
		if word(before) != byte(v) || word(main) == byte(v+10) {
			t.Errorf("round %d: the side came before the fork, or behind what follows it", round)
		}
		openUp(g + 2)
		must(t, poll(bounded(t), func() (bool, error) { return word(main) == byte(v+10), nil }))
		if word(joined) == byte(v) {
			t.Errorf("round %d: joined before the side's work was done", round)
		}
		openUp(g + 3)
		must(t, s[0].Synchronize(bounded(t)))
		if word(aside) != byte(v+10) || word(joined) != byte(v) {
			t.Errorf("round %d: %d on the side, %d after the join", round, word(aside), word(joined))
		}
		openUp(g + 4)
	}
	must(t, x.Close(), x.Close())
}

// In a capture of any mode the side work becomes part of the graph, without additional nodes. While the side stream is
// in a capture, Fork refuses work outside of it.
func TestSideInCaptures(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d := open(t, 0)
	x, err := d.NewSide()
	must(t, err)
	s := streams(t, d, 3)
	p, word := memory(t, d)
	both := func(s *Stream, v byte) {
		t.Helper()
		if !forked(t, x, s) {
			t.Fatal("no fork")
		}
		must(t, begun(t, x).Memset(p, v, 8), x.Join(s), s.Copy(p.Add(8), p, 8))
	}
	for i, mode := range []CaptureMode{CaptureGlobal, CaptureThreadLocal, CaptureRelaxed} {
		eager, captured := byte(2*i+1), byte(2*i+2)
		both(s[1], eager)
		must(t, s[0].BeginCapture(mode))
		if !forked(t, x, s[1]) {
			t.Errorf("mode %v: no fork, though the side is in no capture yet", mode)
		}
		both(s[0], captured)
		if forked(t, x, s[1]) {
			t.Errorf("mode %v: forked for eager work beside a capture", mode)
		}
		must(t, s[2].BeginCapture(mode))
		if forked(t, x, s[2]) {
			t.Errorf("mode %v: forked for another capture", mode)
		}
		must(t, s[2].Copy(p.Add(16), p, 8))
		other, err := s[2].EndCapture()
		must(t, err)
		both(s[0], captured)
		g, err := s[0].EndCapture()
		must(t, err)
		if n, err := g.Nodes(); n != 4 || err != nil {
			t.Errorf("mode %v: %d operations, %v", mode, n, err)
		}
		must(t, s[1].Synchronize(bounded(t)))
		if word(0) != eager || word(1) != eager {
			t.Errorf("mode %v: %d and %d before the graph runs", mode, word(0), word(1))
		}
		exec, err := g.Instantiate()
		must(t, err, exec.Launch(s[1]), s[1].Synchronize(bounded(t)))
		if word(0) != captured || word(1) != captured {
			t.Errorf("mode %v: %d and %d after it", mode, word(0), word(1))
		}
		must(t, exec.Close(), g.Close(), other.Close())
	}
	both(s[2], 99)
	must(t, s[2].Synchronize(bounded(t)))
	if word(1) != 99 {
		t.Error("the side does not work after captures")
	}
}

func TestSideErrors(t *testing.T) {
	d := open(t, 0)
	x, err := d.NewSide()
	must(t, err)
	s := streams(t, d, 1)[0]
	if n := testing.AllocsPerRun(20, func() {
		_ = forked(t, x, s)
		_ = begun(t, x)
		must(t, x.Join(s))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	must(t, s.Close())
	if ok, err := x.Fork(s); ok || !errors.Is(err, device.ErrClosed) {
		t.Errorf("a closed stream: %v, %v", ok, err)
	}
	if ok, err := x.Fork(streams(t, open(t, 1), 1)[0]); ok || !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("a stream of another GPU: %v, %v", ok, err)
	}
	must(t, x.Close())
	if _, err := x.Fork(streams(t, d, 1)[0]); !errors.Is(err, device.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	must(t, d.Close())
	if _, err := d.NewSide(); !errors.Is(err, device.ErrClosed) {
		t.Errorf("of a closed device: %v", err)
	}
}
