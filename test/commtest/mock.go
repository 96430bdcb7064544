package commtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/mockcuda"
)

// MockVariable is set in the children that RunOnMock starts.
const MockVariable = "GOCCL_TEST_MOCK"

// RunOnMock runs the tests TestOnMock… of the package in a child with the mock driver, whose kernels do nothing: they
// test the host code around kernels without a GPU.
func RunOnMock(t *testing.T) {
	t.Helper()
	lib := filepath.Join(t.TempDir(), "libmockcuda.so")
	if err := mockcuda.Build(lib); err != nil {
		t.Skip(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 4*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestOnMock", "-test.v", "-test.count=1")
	cmd.Env = append(setting.Environ(), MockVariable+"=1", mockcuda.Env+"="+lib, "MOCKCUDA_DEVICES=4",
		"MOCKCUDA_MEMORY_MB=4096", "TMPDIR="+t.TempDir()) // communicators of a busy machine live longer beside each other
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestOnMock") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// OnMock makes n ranks of this process on the mock driver. It skips tests that RunOnMock has not started.
func OnMock(t testing.TB, n int, set func(r int, cfg *goccl.Config)) []*goccl.Comm {
	t.Helper()
	NeedMock(t)
	if _, err := MockTrace(); err != nil {
		t.Fatal(err)
	}
	return New(t, n, func(r int) (device.Device, error) { return cuda.Open(r % 4) }, set)
}

// MockStream makes a stream that the end of the test closes.
func MockStream(t testing.TB, c *goccl.Comm) *cuda.Stream {
	t.Helper()
	s, err := c.Device().NewStream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(*cuda.Stream)
}

// MockTrace returns the mock driver's trace, which is made before the driver is loaded.
var MockTrace = sync.OnceValues(func() (*mockcuda.Trace, error) { return mockcuda.NewTrace(os.TempDir()) })

// NeedMock skips a test that RunOnMock has not started.
func NeedMock(t testing.TB) {
	t.Helper()
	if setting.Get(MockVariable) == "" {
		t.Skip("TestMock runs this")
	}
}
