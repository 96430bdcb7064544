package netif

import (
	"net/netip"
	"strings"
	"testing"
)

func TestPickAddr(t *testing.T) {
	ip := netip.MustParseAddr
	nics := []NIC{
		{Name: "lo", Loopback: true, Addrs: []netip.Addr{ip("127.0.0.1"), ip("::1")}},
		{Name: "docker0", Addrs: []netip.Addr{ip("172.17.0.1")}},
		{Name: "eth0", Addrs: []netip.Addr{ip("fd00::1"), ip("10.0.0.1")}},
		{Name: "eth1", Addrs: []netip.Addr{ip("10.1.0.1")}},
		{Name: "eth10", Addrs: []netip.Addr{ip("10.10.0.1")}},
	}
	for _, c := range []struct {
		spec   string
		family int
		want   string
	}{
		{"", 0, "10.0.0.1"},
		{"", 6, "fd00::1"},
		{"eth1", 0, "10.1.0.1"},
		{"=eth10", 0, "10.10.0.1"},
		{"^eth0,eth1", 0, "172.17.0.1"},
		{"^eth,docker", 0, "127.0.0.1"},
		{"^=eth1", 0, "10.0.0.1"},
		{"lo", 6, "::1"},
		{"ib", 0, ""},
		{"eth1", 6, ""},
		{"eth10,eth0", 0, "10.10.0.1"},
		{"docker,eth", 0, "172.17.0.1"},
		{"eth0,eth1", 6, "fd00::1"},
	} {
		got := pickNICs(nics, parseFilter(c.spec), c.family)
		if (len(got) > 0) != (c.want != "") || len(got) > 0 && got[0].Addr.String() != c.want {
			t.Errorf("%q, family %d: %v; want %s", c.spec, c.family, got, c.want)
		}
	}
}

// A rail must not run over an interface that leads to containers.
func TestNICsAreOfOneClass(t *testing.T) {
	ip := netip.MustParseAddr
	nics := []NIC{
		{Name: "lo", Loopback: true, Addrs: []netip.Addr{ip("127.0.0.1")}},
		{Name: "docker0", Addrs: []netip.Addr{ip("172.17.0.1")}},
		{Name: "eth0", Addrs: []netip.Addr{ip("fd00::1")}}, {Name: "eth1", Addrs: []netip.Addr{ip("10.1.0.1")}},
	}
	for spec, want := range map[string]string{"": "eth1 eth0", "^eth": "docker0", "lo": "lo", "=eth0": "eth0",
		"eth0,eth1": "eth0 eth1", "eth1,eth0": "eth1 eth0", "eth1,docker": "eth1 docker0"} {
		var got []string
		for _, n := range pickNICs(nics, parseFilter(spec), 0) {
			got = append(got, n.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", spec, got, want)
		}
	}
}

func TestAddr(t *testing.T) {
	if a, err := Addr("lo", 4); err != nil || !a.Is4() {
		t.Errorf("%v, %v", a, err)
	}
	if a, err := Addr("=no-such-interface", 0); err == nil || !strings.Contains(err.Error(), "no-such-interface") {
		t.Errorf("%v, %v", a, err)
	}
}

// TestToward finds the address from which routes lead, among those that are allowed.
func TestToward(t *testing.T) {
	ip := netip.MustParseAddr
	nics := []NIC{{Name: "eth0", Addrs: []netip.Addr{ip("192.0.2.1")}}, {Name: "lo", Addrs: []netip.Addr{ip("127.0.0.1")}}}
	for to, want := range map[string]string{"127.0.0.1": "127.0.0.1", "203.0.113.1": "192.0.2.1",
		"2001:db8::1": "invalid IP"} {
		if got := Toward(nics, ip(to)); got.String() != want {
			t.Errorf("toward %s: %v, want %s", to, got, want)
		}
	}
}
