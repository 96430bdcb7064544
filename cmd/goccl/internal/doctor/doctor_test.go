package doctor

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goccl/goccl/internal/driver"
	"github.com/goccl/goccl/job/topo"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func machine(t testing.TB, name string) *topo.Machine {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../../../job/topo/testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := topo.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// source returns a healthy host with the named machine.
func source(t testing.TB, name string, env ...string) Source {
	m := machine(t, name)
	return Source{
		Environment: func() []string { return append([]string{"HOME=/root", "PATH=/bin"}, env...) },
		Driver: func() (int, error) {
			if m.CUDA == 0 {
				return 0, fmt.Errorf("%w: libcuda.so.1: cannot open shared object file", driver.ErrNoDriver)
			}
			return m.CUDA, nil
		},
		Hardware:   func() bool { return len(m.GPUs) > 0 },
		Machine:    func(context.Context) (*topo.Machine, error) { return m, nil },
		Visible:    func() (int, error) { return len(m.GPUs), nil },
		PeerAccess: func(a, b int) (bool, error) { l, _ := m.Link(a, b); return l.P2P, nil },
		Share:      func(context.Context) (error, error) { return nil, nil },
		Limit: func(name string) (uint64, error) {
			return map[string]uint64{"nofile": 1 << 20, "memlock": Unlimited}[name], nil
		},
		Shm:         func() (uint64, error) { return 512 << 30, nil },
		MemoryLimit: func() (uint64, error) { return Unlimited, nil },
		CPUs:        func() int { return m.CPU.Threads },
	}
}

// The whole report of several hosts, as text. Read a change before you accept it with -update.
func TestReports(t *testing.T) {
	small := source(t, "4xpcie", "CUDA_VISIBLE_DEVICES=0,1,1", "CUDA_LAUNCH_BLOCKING=1", "CUDA_DEVICE_MAX_CONNECTIONS=1",
		"GOCCL_TIMEOUT=fast", "GOCCL_TIMEOUTS=3s",
		"GOCCL_SECRET=hunter2", "NCCL_P2P_DISABLE=1", "NCCL_DEBUG=INFO",
		"PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync", "GOCCL_CUDA_LIB=/tmp/x.so", "LD_PRELOAD=/x/libnccl.so.2")
	small.Limit = func(name string) (uint64, error) {
		return map[string]uint64{"nofile": 1024, "memlock": 64 << 10}[name], nil
	}
	small.Shm = func() (uint64, error) { return 64 << 20, nil }
	small.MemoryLimit = func() (uint64, error) { return 512 << 20, nil }
	small.CPUs = func() int { return 2 }
	small.Share = func(context.Context) (error, error) {
		return nil, errors.New("cuIpcGetMemHandle: CUDA_ERROR_NOT_SUPPORTED (801)")
	}

	old := source(t, "4xpcie")
	old.Driver = func() (int, error) { return 11080, nil }
	old.Visible = func() (int, error) { return 1, nil }

	noDriver := source(t, "laptop")
	noDriver.Hardware = func() bool { return true }

	fabric := source(t, "8xh200")
	fabric.Driver = func() (int, error) {
		return 0, &driver.Error{Call: "cuInit", Code: 802, Name: "CUDA_ERROR_SYSTEM_NOT_READY",
			Text: "system not yet initialized"}
	}

	for name, c := range map[string]struct {
		s     Source
		worst Status
	}{
		"healthy": {source(t, "8xh200", "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7", "NCCL_NVLS_ENABLE=0", "GOCCL_TIMEOUT=1m"),
			OK},
		"laptop":    {source(t, "laptop"), Warn},
		"hostile":   {small, Fail},
		"olddriver": {old, Fail},
		"nodriver":  {noDriver, Fail},
		"fabric":    {fabric, Fail},
	} {
		fs := c.s.Check(t.Context())
		if got := Worst(fs); got != c.worst {
			t.Errorf("%s: %s, want %s", name, got, c.worst)
		}
		for _, f := range fs {
			if (f.Fix == "") != (f.Status == OK) || f.Detail == "" || f.Area == "" || f.Name == "" {
				t.Errorf("%s: incomplete finding %+v", name, f)
			}
			if strings.Contains(f.Detail+f.Fix, "hunter2") {
				t.Errorf("%s: a secret is shown", name)
			}
		}
		if d := cmp.Diff(fs, c.s.Check(t.Context())); d != "" {
			t.Errorf("%s is not deterministic: %s", name, d)
		}
		var b bytes.Buffer
		if err := Write(&b, fs, false); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, _ := os.ReadFile(golden)
		if d := cmp.Diff(string(want), b.String()); d != "" {
			t.Errorf("%s: %s", golden, d)
		}
	}
}

// Grades that need a reader are coloured in a terminal, and everything stays in its column.
func TestColors(t *testing.T) {
	fs := []Finding{{"gpu", "a", OK, "b", ""}, {"gpu", "a", Warn, "b", "c"}, {"gpu", "a", Fail, "b", ""}}
	var b bytes.Buffer
	want := "gpu\n  ok    a  b\n  \x1b[33mwarn\x1b[0m  a  b\n           → c\n  \x1b[1;31mfail\x1b[0m  a  b\n"
	if err := Write(&b, fs, true); err != nil || b.String() != want {
		t.Errorf("%q, %v, want %q", b.String(), err, want)
	}
}

func find(fs []Finding, name string) Finding {
	for _, f := range fs {
		if f.Name == name {
			return f
		}
	}
	return Finding{}
}

func TestVisibleDevices(t *testing.T) {
	for value, want := range map[string]Status{"0,1": OK, "": Warn, "-1": Warn, "0,0": Fail, "0,9": Warn,
		"GPU-00000000-0000-4000-8000-000000000003": OK} {
		f := find(source(t, "8xh200", "CUDA_VISIBLE_DEVICES="+value).Check(t.Context()), "CUDA_VISIBLE_DEVICES")
		if f.Status != want {
			t.Errorf("CUDA_VISIBLE_DEVICES=%q: %+v, want %s", value, f, want)
		}
	}
}

func TestValues(t *testing.T) {
	for env, want := range map[string]Status{"GOCCL_TIMEOUT=30": OK, "GOCCL_TIMEOUT=2m": OK, "GOCCL_TIMEOUT=10ms": Warn,
		"GOCCL_TIMEOUT=-1s": Fail, "GOCCL_TIMEOUT=": OK, "GOCCL_MAX_CTAS=0": Fail, "NCCL_MAX_CTAS=12": OK,
		"GOCCL_COPY_ENGINE=yes": Fail, "GOCCL_CHECK=1": OK} {
		name, _, _ := strings.Cut(env, "=")
		if f := find(source(t, "8xh200", env).Check(t.Context()), name); f.Status != want {
			t.Errorf("%s: %+v, want %s", env, f, want)
		}
	}
}

func TestDeviceOrder(t *testing.T) {
	m := machine(t, "4xpcie")
	s := source(t, "4xpcie", "CUDA_DEVICE_ORDER=FASTEST_FIRST")
	if f := find(s.Check(t.Context()), "CUDA_DEVICE_ORDER"); f.Status != OK {
		t.Errorf("GPUs of one kind: %+v", f)
	}
	m.GPUs[0].Name = "NVIDIA T4"
	s.Machine = func(context.Context) (*topo.Machine, error) { return m, nil }
	if f := find(s.Check(t.Context()), "CUDA_DEVICE_ORDER"); f.Status != Warn {
		t.Errorf("GPUs of two kinds: %+v", f)
	}
}

func TestUnevenLinksAndMIG(t *testing.T) {
	s := source(t, "8xh200")
	m := machine(t, "8xh200")
	m.GPUs[3].NVLinks, m.GPUs[5].MIG = 17, true
	s.Machine = func(context.Context) (*topo.Machine, error) { return m, nil }
	fs := s.Check(t.Context())
	if f := find(fs, "nvlink"); f.Status != Warn || !strings.Contains(f.Detail, "17 and 18") {
		t.Errorf("%+v", f)
	}
	if f := find(fs, "GPU 5"); f.Status != Warn {
		t.Errorf("%+v", f)
	}
}

// A driver that hangs delays Check until the deadline only, and is reported.
func TestHangingDriver(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	s := source(t, "8xh200")
	s.Driver = func() (int, error) { <-release; return 0, nil }
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	f := find(s.Check(ctx), "libcuda")
	if f.Status != Fail || !strings.Contains(f.Detail, "does not answer") {
		t.Errorf("%+v", f)
	}
}

func TestEmptySource(t *testing.T) {
	if fs := (Source{}).Check(t.Context()); len(fs) != 0 || Worst(fs) != OK {
		t.Errorf("%+v", fs)
	}
}

func TestHardware(t *testing.T) {
	root := t.TempDir()
	if hardware(root) {
		t.Error("hardware of nothing")
	}
	d := filepath.Join(root, "sys/bus/pci/devices/0000:01:00.0")
	if err := errors.Join(os.MkdirAll(d, 0o755), os.WriteFile(filepath.Join(d, "vendor"), []byte("0x10de\n"), 0o644),
		os.WriteFile(filepath.Join(d, "class"), []byte("0x030200\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if !hardware(root) {
		t.Error("a GPU is not seen")
	}
}

func TestNearest(t *testing.T) {
	for in, want := range map[string]string{"GOCCL_TIMEOUTS": "GOCCL_TIMEOUT", "GOCCL_TIMOUT": "GOCCL_TIMEOUT",
		"GOCCL_SOMETHING_ELSE": ""} {
		if got := nearest(in); got != want {
			t.Errorf("nearest(%s) = %q, want %q", in, got, want)
		}
	}
}

// This host, whatever it is: every finding is complete and nothing hangs.
func TestThisHost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	fs := Check(ctx)
	var b bytes.Buffer
	_ = Write(&b, fs, false)
	t.Log("\n" + b.String())
	if len(fs) < 5 {
		t.Error("too few findings")
	}
	for _, f := range fs {
		if (f.Fix == "") != (f.Status == OK) || f.Detail == "" {
			t.Errorf("incomplete finding %+v", f)
		}
	}
}
