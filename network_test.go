package goccl

import (
	"strings"
	"testing"
)

func TestChooseNetwork(t *testing.T) {
	rank := func(forced, plugin, ib, tcp string) networkOffers {
		offer := func(kind, name, nic string) networkOffer {
			o := networkOffer{Kind: kind, Name: name, NIC: nic}
			if nic == "" {
				o.Why = "none"
			}
			return o
		}
		return networkOffers{forced, []networkOffer{offer(kindPlugin, plugin, plugin), offer(kindIB, "ib", ib),
			offer(kindTCP, "tcp", tcp)}}
	}
	for name, c := range map[string]struct {
		ranks []networkOffers
		kind  string
		text  string // in why, or in the error
	}{
		"tcp":           {[]networkOffers{rank("", "", "", "eth0"), rank("", "", "", "eth1")}, kindTCP, ""},
		"ib":            {[]networkOffers{rank("", "", "mlx5_0", "eth0"), rank("", "", "mlx5_1", "eth0")}, kindIB, ""},
		"plugin":        {[]networkOffers{rank("", "OFI", "m", "e"), rank("", "OFI", "m", "e")}, kindPlugin, ""},
		"ib is missing": {[]networkOffers{rank("", "", "m", "e"), rank("", "", "", "e")}, kindTCP, "no ib on rank 1"},
		"two plugins":   {[]networkOffers{rank("", "A", "", "e"), rank("", "B", "", "e")}, kindTCP, `"B" on rank 1`},
		"forced":        {[]networkOffers{rank("Socket", "A", "m", "e"), rank("Socket", "A", "m", "e")}, kindTCP, ""},
		"forced plugin": {[]networkOffers{rank("ofi", "OFI", "m", "e"), rank("ofi", "OFI", "m", "e")}, kindPlugin, ""},
		"forced, but missing": {[]networkOffers{rank("ib", "", "m", "e"), rank("ib", "", "", "e")}, "",
			"no ib on rank 1 (none)"},
		"forced to what nobody knows": {[]networkOffers{rank("gm", "", "m", "e")}, "", `is "gm"`},
		"forced differently":          {[]networkOffers{rank("ib", "", "m", "e"), rank("", "", "m", "e")}, "", "rank 1"},
		"nothing":                     {[]networkOffers{rank("", "", "", "e"), rank("", "", "", "")}, "", "no tcp on rank 1"},
	} {
		kind, why, err := chooseNetwork(c.ranks)
		text := why
		if err != nil {
			text = err.Error()
		}
		if kind != c.kind || (err == nil) != (c.kind != "") || !strings.Contains(text, c.text) || c.text == "" && text != "" {
			t.Errorf("%s: %q, %q, %v", name, kind, why, err)
		}
	}
}
