//go:build cgo && linux

package driver

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/goccl/goccl/test/mockcuda"
)

var mocked bool

func TestMain(m *testing.M) {
	mock, cleanup, err := mockcuda.Setup()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	mocked = mock
	code := m.Run()
	cleanup()
	os.Exit(code)
}

func needDriver(t testing.TB) Context {
	t.Helper()
	if err := Load(); err != nil {
		t.Skip(err)
	}
	if n, err := DeviceCount(); err != nil || n == 0 {
		t.Skip("no GPU", err)
	}
	c, err := RetainPrimary(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ReleasePrimary(0); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestErrorNamesTheCall(t *testing.T) {
	c := needDriver(t)
	_, err := c.MemAlloc(1 << 46)
	var e *Error
	if !errors.As(err, &e) || e.Call != "cuMemAlloc_v2" || e.Code != OutOfMemory || e.Name != "CUDA_ERROR_OUT_OF_MEMORY" {
		t.Fatalf("MemAlloc(64 TiB): %v", err)
	}
	if !IsCode(fmt.Errorf("wrapped: %w", err), OutOfMemory) || IsCode(err, NotFound) || IsCode(nil, OutOfMemory) {
		t.Error("IsCode")
	}
	if !errors.Is(err, &Error{Code: OutOfMemory}) {
		t.Error("errors.Is by code")
	}
}

func TestJITError(t *testing.T) {
	c := needDriver(t)
	_, err := c.LoadModule([]byte("this is not PTX"))
	var e *JITError
	if !errors.As(err, &e) || !IsCode(err, InvalidPTX) && !IsCode(err, InvalidImage) {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(e.Error(), "\n") {
		t.Error("the short form has several lines")
	}
	if full := fmt.Sprintf("%+v", e); !strings.Contains(full, e.Log) {
		t.Error("the long form lacks the log")
	}
}

func TestMissingLibrary(t *testing.T) {
	t.Setenv(mockcuda.Env, "/nonexistent/libcuda.so.1")
	if err := open(); !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), "/nonexistent/libcuda.so.1") {
		t.Fatalf("got %v", err)
	}
}

// A call must restore the thread's context, even if it fails.
func TestContextIsRestored(t *testing.T) {
	c := needDriver(t)
	if n, _ := DeviceCount(); n < 2 {
		t.Skip("needs two devices")
	}
	other, err := RetainPrimary(1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ReleasePrimary(1) }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, foreign := range []Context{other, 0} {
		setCurrentContext(foreign)
		if _, _, err := c.MemInfo(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.MemAlloc(1 << 46); err == nil {
			t.Fatal("no error")
		}
		if o, ok, err := CurrentDevice(); err != nil || ok != (foreign != 0) || ok && o != 1 {
			t.Errorf("current device %d %v %v with context %#x", o, ok, err, foreign)
		}
		if got := currentContext(); got != foreign {
			t.Errorf("the thread had context %#x and has %#x now", foreign, got)
		}
	}
}

func TestPollAllocatesNothing(t *testing.T) {
	c := needDriver(t)
	s, err := c.NewStream(0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.DestroyStream(s) }()
	if n := testing.AllocsPerRun(100, func() {
		if ok, err := c.StreamDone(s); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a query", n)
	}
}

func BenchmarkStreamQuery(b *testing.B) {
	c := needDriver(b)
	s, err := c.NewStream(0)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.DestroyStream(s) }()
	for b.Loop() {
		_, _ = c.StreamDone(s)
	}
}

// BenchmarkContextCall measures the overhead of a call: cgo, and save, set and restore of the context, without any
// work.
func BenchmarkContextCall(b *testing.B) {
	c := needDriver(b)
	for b.Loop() {
		_, _, _ = c.PriorityRange()
	}
}
