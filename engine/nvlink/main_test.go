package nvlink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/mockcuda"
)

// notes is the mock driver's trace; nil without a mock. Mock kernels do nothing: these tests check the engine's driver
// calls.
var notes *mockcuda.Trace

func TestMain(m *testing.M) {
	if os.Getenv("MOCKCUDA_DEVICES") == "" {
		_ = os.Setenv("MOCKCUDA_DEVICES", "4")
	}
	mock, cleanup, err := mockcuda.Setup()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	dir := ""
	if mock {
		if dir, err = os.MkdirTemp("", "goccl-nvlink-"); err == nil {
			notes, err = mockcuda.NewTrace(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	code := m.Run()
	cleanup()
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// mockEngines are the engines of n ranks of this process, rank r on GPU r mod 4, over the mock driver. All
// pieces are made.
func mockEngines(t testing.TB, n int) []*Engine {
	t.Helper()
	engines := limitedEngines(t, n, time.Minute)
	for _, e := range engines {
		must(t, e.needAll())
	}
	return engines
}

// needAll makes all pieces.
func (e *Engine) needAll() error {
	for k := range numPieces {
		if e.layout().bytes(k) == 0 {
			continue
		}
		if err := e.need(k, e.everyRank()); err != nil {
			return err
		}
	}
	return nil
}

// limitedEngines are mockEngines with a limit of operations, and without pieces.
func limitedEngines(t testing.TB, n int, limit time.Duration) []*Engine {
	t.Helper()
	if notes == nil {
		t.Skip("this test needs the mock driver: gcc, and no GPU")
	}
	boots := bootstrap.NewLocalGroup(n)
	engines, errs := make([]*Engine, n), make(chan error, n)
	for r := range n {
		dev, err := cuda.Open(r % 4)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
		go func() {
			var err error
			engines[r], err = New(context.Background(), Config{Job: collective.Job{Bootstrap: boots[r], Device: dev,
				OpTimeout: limit}})
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, e := range engines {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, b := range boots {
			_ = b.Close()
		}
	})
	return engines
}

func newStream(t testing.TB, e *Engine) *cuda.Stream {
	t.Helper()
	s, err := e.dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(*cuda.Stream)
}

func memory(t testing.TB, e *Engine, n int64) device.Ptr {
	t.Helper()
	m, err := e.dev.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m.Ptr()
}

// noted returns the driver calls made during do.
func noted(t testing.TB, do func()) []mockcuda.Call {
	t.Helper()
	if notes == nil {
		t.Skip("this test needs the mock driver: gcc, and no GPU")
	}
	notes.Start()
	do()
	calls, err := notes.Stop()
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// launches filters the kernel launches out of calls.
func launches(calls []mockcuda.Call) []mockcuda.Call {
	var out []mockcuda.Call
	for _, c := range calls {
		if c.Kind == mockcuda.Launch {
			out = append(out, c)
		}
	}
	return out
}

// argsOf reads a launch's parameters as the kernel does.
func argsOf[T any](t testing.TB, c mockcuda.Call) *T {
	t.Helper()
	a := new(T)
	if len(c.Params) != int(unsafe.Sizeof(*a)) {
		t.Fatalf("%s got %d bytes of parameters, its struct has %d", c.Kernel, len(c.Params), unsafe.Sizeof(*a))
	}
	copy(launcher.Raw(a), c.Params)
	return a
}

func allReduce(mem device.Ptr, count int64, s device.Stream) collective.Request {
	return collective.Request{Collective: collective.AllReduce, Send: mem, Recv: mem, Count: count, Type: datatype.Float32,
		Stream: s}
}

func kinds(calls []mockcuda.Call) string {
	var s []string
	for _, c := range calls {
		k := c.Kind.String()
		if c.Captured {
			k += "*"
		}
		s = append(s, k)
	}
	return strings.Join(s, " ")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func names(calls []mockcuda.Call) []string {
	var s []string
	for _, c := range calls {
		s = append(s, c.Kernel)
	}
	return s
}

// setOrder replaces the order of e, which has no work.
func setOrder(t testing.TB, e *Engine, word device.Ptr, graphs cuda.GraphOrder) *cuda.Order {
	t.Helper()
	o, err := e.dev.NewOrder(word, graphs)
	must(t, errors.Join(err, e.launcher.Order.Close()))
	e.launcher.Order = o
	return o
}

// abandon ends work that waits for other ranks, before the test frees its memory.
func abandon(t testing.TB, e *Engine) {
	t.Helper()
	e.Abort(collective.ErrAborted)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	must(t, e.launcher.Order.Wait(ctx))
}

// eventually waits, with a bound, for a result of the background goroutines.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
