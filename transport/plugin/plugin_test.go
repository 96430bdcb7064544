package plugin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccl/goccl/internal/driver/ncclnet"
	"github.com/goccl/goccl/test/nettest"
	"github.com/goccl/goccl/transport"
)

// build compiles the plugin of testdata.
func build(t testing.TB, version int) string {
	t.Helper()
	if _, err := ncclnet.Open("no such plugin"); err == ncclnet.ErrUnavailable {
		t.Skip(err)
	}
	file := filepath.Join(os.TempDir(), fmt.Sprintf("goccl-plugin-%d-v%d.so", os.Getpid(), version))
	if _, err := os.Stat(file); err == nil {
		return file
	}
	out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Wno-pedantic", "-Werror",
		fmt.Sprintf("-DVERSION=%d", version), "-o", file, "testdata/sockets.c").CombinedOutput()
	if err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = os.Remove(file) })
	return file
}

func open(t testing.TB, version int) transport.Net {
	t.Helper()
	n, err := Open(build(t, version), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n.Version() != version || n.Name() != "Sockets" {
		t.Fatalf("%s, version %d", n.Name(), n.Version())
	}
	return n
}

// The suite over the newest and the oldest version.
func TestNewestVersion(t *testing.T) { suite(t, 12, 8<<20) }
func TestOldestVersion(t *testing.T) { suite(t, 6, 1<<20) }

func suite(t *testing.T, version, size int) {
	file := build(t, version) // before the tests, which may remove it
	nettest.Run(t, nettest.Config{Max: size, DoneIsLocal: true, Net: func(t testing.TB) transport.Net {
		n, err := Open(file, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}})
}

// Every version differs in a structure or an argument.
func TestEveryVersion(t *testing.T) {
	for v := 7; v <= 11; v++ {
		t.Run(fmt.Sprint("v", v), func(t *testing.T) {
			n := open(t, v)
			nics, err := n.NICs()
			if err != nil || len(nics) != 1 || nics[0].Name != "sock0" || nics[0].Speed != 1.25e9 || nics[0].DeviceMem {
				t.Fatalf("%+v, %v", nics, err)
			}
			x, y := nettest.Join(t, nettest.Open(t, n), nettest.Open(t, n), 3<<20)
			both(t, x, y)
		})
	}
}

func both(t *testing.T, x, y *nettest.Side) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		nettest.Exchange(t, y, 3<<20, 2)
	}()
	nettest.Exchange(t, x, 3<<20, 2)
	<-done
}

func TestNoPlugin(t *testing.T) {
	for name, want := range map[string]string{"": "libnccl-net.so", "absent": "libnccl-net-absent.so",
		"/no/where.so": "/no/where.so"} {
		if _, err := Open(name, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want the file %s in it", name, err, want)
		}
	}
	if _, err := Open("libc.so.6", Options{}); err == nil || !strings.Contains(err.Error(), "ncclNetPlugin_v6") {
		t.Errorf("a library that is no plugin: %v", err)
	}
	if _, err := Open("none", Options{}); err == nil {
		t.Error("none is a plugin")
	}
}
