package cuda

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
	"github.com/goccl/goccl/test/mockcuda"
)

// mocked is set if the tests run with the mock driver. On a GPU host the same tests use the real driver.
var mocked bool

// childEnv makes the test binary a second process of a sharing test.
const childEnv = "GOCCL_CUDA_TEST_CHILD"

func TestMain(m *testing.M) {
	mock, cleanup, err := mockcuda.Setup()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	mocked = mock
	if job := os.Getenv(childEnv); job != "" {
		if err := child(job); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	cleanup()
	os.Exit(code)
}

// job describes the work of a child: map the handle on a device, check that the memory holds Want, fill it with Fill.
type job struct {
	Device     int
	Handle     device.Handle
	Want, Fill byte
	Twice      bool // import twice: the second must share the mapping
}

// runChild starts this binary as another process; the handle's descriptor travels as its descriptor 3.
func runChild(t *testing.T, j job) {
	t.Helper()
	cmd := exec.CommandContext(bounded(t), os.Args[0])
	if j.Handle.Type == device.HandleFD {
		f := os.NewFile(uintptr(j.Handle.FD), "handle")
		defer func() { _ = f.Close() }()
		cmd.ExtraFiles = []*os.File{f}
		j.Handle.FD = 3
	}
	b, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), childEnv+"="+string(b), "GORACE=atexit_sleep_ms=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
}

func child(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	d, err := Open(j.Device)
	if err != nil {
		return err
	}
	a, err := d.Import(j.Handle)
	if err != nil {
		return err
	}
	if j.Twice {
		b, err := d.Import(j.Handle)
		if err != nil {
			return fmt.Errorf("second import: %w", err)
		}
		if j.Handle.Type == device.HandleLegacyIPC && a.Ptr() != b.Ptr() {
			return fmt.Errorf("imports at %#x and %#x", a.Ptr(), b.Ptr())
		}
		if err := b.Close(); err != nil {
			return err
		}
	}
	got := make([]byte, j.Handle.Size-j.Handle.Offset)
	p := a.Ptr().Add(j.Handle.Offset)
	if err := d.CopyOut(got, p); err != nil {
		return err
	}
	if want := bytes.Repeat([]byte{j.Want}, len(got)); !bytes.Equal(got, want) {
		return fmt.Errorf("the memory does not hold %#x throughout", j.Want)
	}
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	if err := s.Memset(p, j.Fill, int64(len(got))); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Synchronize(ctx); err != nil {
		return err
	}
	return d.Close()
}

// opened counts the devices of the running test; baseline is the number of live objects before the first.
var (
	opened   int
	baseline [mockcuda.NumCounts]int
)

// open returns a device that is closed when the test ends. On the mock, leaks are counted when the test's last device
// closes.
func open(t testing.TB, ordinal int) *Device {
	t.Helper()
	if err := Available(); err != nil {
		t.Skip(err)
	}
	n, err := Count()
	if err != nil {
		t.Fatal(err)
	}
	if ordinal >= n {
		t.Skipf("needs %d GPUs, there are %d", ordinal+1, n)
	}
	if opened == 0 && mocked {
		baseline = counts(t)
	}
	d, err := Open(ordinal)
	if err != nil {
		t.Fatal(err)
	}
	opened++
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if opened--; opened == 0 && mocked && !t.Failed() {
			if after := counts(t); after != baseline {
				t.Errorf("leak: live objects before %v, after %v (regions, streams, events, graphs, modules, VMM handles, "+
					"context references)", baseline, after)
			}
		}
	})
	return d
}

func counts(t testing.TB) (c [mockcuda.NumCounts]int) {
	t.Helper()
	for i := range c {
		var err error
		if c[i], err = driver.DeviceAttribute(0, driver.Attribute(mockcuda.CountAttribute+i)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// bounded returns a context for a wait of a test; making a context on a busy GPU host takes seconds.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8) + seed
	}
	return b
}

func fds(t testing.TB) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(e)
}

// mustContain checks an error's text: what failed, where, and what to do.
func mustContain(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error %v lacks %q", err, p)
		}
	}
}
