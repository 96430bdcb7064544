package primitive

import (
	"errors"
	"testing"
	"time"
)

func TestListenAddressFollowsTheRouteToTheMaster(t *testing.T) {
	t.Setenv("GOCCL_SOCKET_IFNAME", "")
	t.Setenv("NCCL_SOCKET_IFNAME", "")
	t.Setenv("MASTER_ADDR", "127.0.0.1")
	if a, err := listenAddress(); err != nil || !a.IsLoopback() {
		t.Fatal(a, err)
	}
	t.Setenv("GOCCL_SOCKET_IFNAME", "=no-such-interface")
	if a, err := listenAddress(); err == nil {
		t.Fatal(a)
	}
	t.Setenv("GOCCL_SOCKET_IFNAME", "")
	t.Setenv("NCCL_SOCKET_FAMILY", "junk")
	if a, err := listenAddress(); !errors.Is(err, ErrInvalid) {
		t.Fatal(a, err)
	}
}

// TestEnvironmentOfAContext: an invalid variable is an error of the first use, not ignored.
func TestEnvironmentOfAContext(t *testing.T) {
	for _, name := range []string{"GOCCL_TIMEOUT", "GOCCL_SPIN_LIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "soon")
			c := NewContext()
			if err := c.usable("x"); !errors.Is(err, ErrInvalid) {
				t.Error(err)
			}
			_ = c.Close()
			t.Setenv(name, "5")
			c = NewContext()
			if err := c.usable("x"); err != nil || name == "GOCCL_TIMEOUT" && c.Timeout() != 5*time.Second {
				t.Error(err, c.Timeout())
			}
			_ = c.Close()
		})
	}
}
