package network

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/internal/netif"
)

func TestChooseNetwork(t *testing.T) {
	rank := func(forced, plugin, ib, tcp string) offers {
		make := func(kind, name, nic string) offer {
			o := offer{Kind: kind, Name: name, NIC: nic}
			if nic == "" {
				o.Why = "none"
			}
			return o
		}
		return offers{Forced: forced, Offers: []offer{make(kindPlugin, plugin, plugin), make(kindIB, "ib", ib),
			make(kindTCP, "tcp", tcp)}}
	}
	for name, c := range map[string]struct {
		ranks []offers
		kind  string
		text  string // in why, or in the error
	}{
		"tcp":           {[]offers{rank("", "", "", "eth0"), rank("", "", "", "eth1")}, kindTCP, ""},
		"ib":            {[]offers{rank("", "", "mlx5_0", "eth0"), rank("", "", "mlx5_1", "eth0")}, kindIB, ""},
		"plugin":        {[]offers{rank("", "OFI", "m", "e"), rank("", "OFI", "m", "e")}, kindPlugin, ""},
		"ib is missing": {[]offers{rank("", "", "m", "e"), rank("", "", "", "e")}, kindTCP, "no ib on rank 1"},
		"two plugins":   {[]offers{rank("", "A", "", "e"), rank("", "B", "", "e")}, kindTCP, `"B" on rank 1`},
		"forced":        {[]offers{rank("Socket", "A", "m", "e"), rank("Socket", "A", "m", "e")}, kindTCP, ""},
		"forced plugin": {[]offers{rank("ofi", "OFI", "m", "e"), rank("ofi", "OFI", "m", "e")}, kindPlugin, ""},
		"forced, but missing": {[]offers{rank("ib", "", "m", "e"), rank("ib", "", "", "e")}, "",
			"no ib on rank 1 (none)"},
		"forced to what nobody knows": {[]offers{rank("gm", "", "m", "e")}, "", `is "gm"`},
		"forced differently":          {[]offers{rank("ib", "", "m", "e"), rank("", "", "m", "e")}, "", "rank 1"},
		"nothing":                     {[]offers{rank("", "", "", "e"), rank("", "", "", "")}, "", "no tcp on rank 1"},
	} {
		kind, why, err := choose(c.ranks)
		text := why
		if err != nil {
			text = err.Error()
		}
		if kind != c.kind || (err == nil) != (c.kind != "") || !strings.Contains(text, c.text) || c.text == "" && text != "" {
			t.Errorf("%s: %q, %q, %v", name, kind, why, err)
		}
	}
}

func TestCommonFamily(t *testing.T) {
	rank := func(addrs ...string) offers {
		n := netif.NIC{Name: "eth0"}
		for _, a := range addrs {
			n.Addrs = append(n.Addrs, netip.MustParseAddr(a))
		}
		return offers{Interfaces: []netif.NIC{n}}
	}
	both, four, six := rank("10.0.0.1", "fd00::1"), rank("10.0.0.2"), rank("fd00::2")
	for _, c := range []struct {
		ranks []offers
		want  int
	}{{[]offers{both, both}, 4}, {[]offers{both, four}, 4}, {[]offers{six, both}, 6}, {[]offers{six, both, four}, 0}} {
		got, err := commonFamily(c.ranks)
		if got != c.want || (err == nil) != (c.want != 0) || err != nil && !strings.Contains(err.Error(),
			"rank 0 has no IPv4 address on [eth0], and rank 2 no IPv6") {
			t.Errorf("%d, want %d: %v", got, c.want, err)
		}
	}
}

// TestPartners: between two hosts, every pair of ranks is tried; with many hosts a rank tries few.
func TestPartners(t *testing.T) {
	for _, c := range []struct {
		hosts []int
		rank  int
		want  []int
	}{
		{[]int{0, 0, 1, 1}, 1, []int{2, 3}}, {[]int{0, 0, 1, 1}, 2, []int{0, 1}},
		{[]int{0, 1, 0, 1, 2, 2, 3}, 2, []int{1, 3, 5, 6}},
	} {
		if got := partners(c.rank, c.hosts); !slices.Equal(got, c.want) {
			t.Errorf("rank %d of %v: %v, want %v", c.rank, c.hosts, got, c.want)
		}
	}
}
