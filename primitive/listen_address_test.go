package primitive

import (
	"net/netip"
	"testing"
)

func TestInterfaceFilter(t *testing.T) {
	for _, c := range []struct {
		spec, name string
		want       bool
	}{
		{"", "eth0", true}, {"eth", "eth0", true}, {"=eth", "eth0", false}, {"=eth0,ib0", "ib0", true}, {"^docker,lo", "docker0", false},
		{"^docker,lo", "eth0", true}, {"^=lo", "lo1", true}, {"eth1", "eth0", false},
	} {
		if got := interfaceAllowed(c.spec, c.name); got != c.want {
			t.Errorf("%q allows %s: %v", c.spec, c.name, got)
		}
	}
	v4, v6, lo := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("127.0.0.1")
	if !(interfaceScore("eth0", v4) > interfaceScore("eth0", v6) && interfaceScore("eth0", v6) > interfaceScore("docker0", v4) &&
		interfaceScore("docker0", v6) > interfaceScore("lo", lo)) {
		t.Error("the order of preference")
	}
}

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
}
