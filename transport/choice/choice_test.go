package choice

import (
	"strings"
	"testing"
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
		return offers{forced, []offer{make(kindPlugin, plugin, plugin), make(kindIB, "ib", ib),
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
