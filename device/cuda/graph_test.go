package cuda

import (
	"errors"
	"runtime"
	"testing"

	"github.com/goccl/goccl/device"
)

func TestGraph(t *testing.T) {
	d := open(t, 0)
	f := addKernel(t, d)
	const n = 1000
	out, a, b := vectors(t, d, n)
	s, _ := d.NewStreamPriority(0)
	u, _ := d.NewStreamPriority(0)
	if st, _, err := s.CaptureStatus(); err != nil || st != CaptureNone {
		t.Fatal(st, err)
	}
	if err := s.BeginCapture(CaptureRelaxed); err != nil {
		t.Fatal(err)
	}
	st, id, err := s.CaptureStatus()
	if err != nil || st != CaptureActive || id == 0 {
		t.Errorf("status %d, id %d, %v", st, id, err)
	}
	// Neither adopting the stream nor an attempt to wait for it may invalidate the capture.
	if _, err := d.WrapStream(s.Raw()); err != nil {
		t.Errorf("WrapStream while capturing: %v", err)
	}
	if err := s.Synchronize(bounded(t)); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("Synchronize while capturing: %v", err)
	}
	// Fork to u and join: out += a on u, after out = a + b on s.
	first, _ := d.NewEvent()
	last, _ := d.NewEvent()
	if err := errors.Join(
		s.Launch(f, Launch1D(4, 256, 0), new(Args).Ptr(out).Ptr(a).Ptr(b).Uint32(n)),
		s.RecordEvent(first), u.WaitEvent(first),
		u.Launch(f, Launch1D(4, 256, 0), new(Args).Ptr(out).Ptr(out).Ptr(a).Uint32(n)),
		u.RecordEvent(last), s.WaitEvent(last),
		s.Copy(a, out, 4*n)); err != nil {
		t.Fatal(err)
	}
	g, err := s.EndCapture()
	if err != nil {
		t.Fatal(err)
	}
	if k, err := g.Nodes(); err != nil || k != 3 {
		t.Errorf("%d nodes, %v", k, err)
	}
	x, err := g.Instantiate()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Close(), x.Upload(s)); err != nil {
		t.Fatal(err)
	}
	// a starts at i, b at 1000·i; each run makes out = 2a + b and a = out.
	want := uint32(1)
	for range 5 {
		if err := errors.Join(x.Launch(s), s.Synchronize(bounded(t))); err != nil {
			t.Fatal(err)
		}
		want = 2*want + 1000
		checkSum(t, d, out, n, want)
	}
}

// Allocating, querying and loading on other threads must not invalidate a global capture.
func TestCaptureSurvivesAllocation(t *testing.T) {
	d := open(t, 0)
	out, a, b := vectors(t, d, 64)
	f := addKernel(t, d)
	s, _ := d.NewStreamPriority(0)
	u, _ := d.NewStreamPriority(0)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := s.BeginCapture(CaptureGlobal); err != nil {
		t.Fatal(err)
	}
	work := func() error {
		m, err := d.Alloc(1 << 20)
		if err != nil {
			return err
		}
		l, err := d.AllocLegacy(100)
		if err != nil {
			return err
		}
		h, err := d.HostAlloc(100)
		if err != nil {
			return err
		}
		e, err := u.Record()
		if err != nil {
			return err
		}
		mod, err := d.LoadModule([]byte(testPTX))
		if err != nil {
			return err
		}
		hd, err := d.Export(m.Ptr())
		closeFD(hd)
		return errors.Join(err, e.Wait(bounded(t)), e.Close(), u.Synchronize(bounded(t)), d.CopyIn(m.Ptr(), pattern(100, 0)),
			mod.Close(), m.Close(), l.Close(), h.Close())
	}
	other := make(chan error)
	go func() { other <- work() }()
	if err := errors.Join(<-other, work()); err != nil {
		t.Error(err)
	}
	if err := s.Launch(f, Launch1D(1, 64, 0), new(Args).Ptr(out).Ptr(a).Ptr(b).Uint32(64)); err != nil {
		t.Fatal(err)
	}
	g, err := s.EndCapture()
	if err != nil {
		t.Fatalf("the capture was spoilt: %v", err)
	}
	x, err := g.Instantiate()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(x.Launch(s), s.Synchronize(bounded(t))); err != nil {
		t.Fatal(err)
	}
	checkSum(t, d, out, 64, 1001)
}
