//go:build cgo && linux

package nvml

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// mock builds an NVML of three GPUs.
func mock(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc")
	}
	so := filepath.Join(t.TempDir(), "libmocknvml.so")
	if out, err := exec.Command("gcc", "-Wall", "-shared", "-fPIC", "-o", so,
		"testdata/mocknvml.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return so
}

func TestRead(t *testing.T) {
	t.Setenv("GOCCL_NVML_LIB", mock(t))
	for range 2 { // initialised and shut down each time
		info, err := Read()
		if err != nil {
			t.Fatal(err)
		}
		if info.Driver != "580.159.04" || info.CUDA != 13000 || len(info.GPUs) != 3 {
			t.Fatalf("%+v", info)
		}
		g := info.GPUs[1]
		if g.Name != "Mock 1" || g.UUID != "GPU-1" || g.BusID != "0000:1b:00.0" || g.Memory != 2<<30 || g.Major != 9 ||
			g.MIG || len(g.Links) != 6 {
			t.Errorf("%+v", g)
		}
		if g.Links[0] != (Link{ToSwitch, "0000:07:00.0"}) || g.Links[5] != (Link{ToGPU, "0000:1a:00.0"}) {
			t.Errorf("links %+v", g.Links)
		}
		if len(info.GPUs[2].Links) != 0 || !info.GPUs[2].MIG {
			t.Errorf("%+v", info.GPUs[2])
		}
		if !info.P2P[0][1] || info.P2P[0][2] || info.Known[0][0] || info.Ancestor[0][1] != Node ||
			info.Ancestor[2][0] != System || info.Ancestor[1][1] != Unknown {
			t.Errorf("%v %v", info.P2P, info.Ancestor)
		}
	}
}

func TestMissing(t *testing.T) {
	t.Setenv("GOCCL_NVML_LIB", "/nonexistent/libnvidia-ml.so.1")
	if _, err := Read(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat("/lib/x86_64-linux-gnu/libm.so.6"); err == nil {
		t.Setenv("GOCCL_NVML_LIB", "/lib/x86_64-linux-gnu/libm.so.6")
		if _, err := Read(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
}

func TestBusID(t *testing.T) {
	for in, want := range map[string]string{"00000000:3B:00.0": "0000:3b:00.0", "0000:3b:00.0": "0000:3b:00.0",
		"00010000:01:00.0": "00010000:01:00.0", "": ""} {
		if got := BusID(in); got != want {
			t.Errorf("BusID(%q) = %q, want %q", in, got, want)
		}
	}
}
