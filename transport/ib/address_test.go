package ib

import (
	"testing"

	"github.com/goccl/goccl/test/mutate"
)

// FuzzParse gives both parsers what a peer might send.
func FuzzParse(f *testing.F) {
	p := &Peer{port: &Port{scratch: make([]byte, 64), nic: "mlx5_0"}, qpn: 77, psn: 99}
	p.port.attr.MTU = 3
	f.Add(p.Address())
	r := &region{addr: 4096, size: 100}
	f.Add(r.Key())
	if a, err := parseAddress(p.Address()); err != nil || a.qpn != 77 || a.psn != 99 || a.nic != "mlx5_0" || a.mtu != 3 {
		f.Fatalf("%+v, %v", a, err)
	}
	if m, err := p.Import(r.Key()); err != nil || m.Size() != 100 || m.(*remoteRegion).addr != 4096 {
		f.Fatalf("%+v, %v", m, err)
	}
	if _, err := parseAddress(r.Key()); err == nil {
		f.Fatal("a key is no address")
	}
	mutate.Fuzz(f, func(t *testing.T, b []byte) {
		if a, err := parseAddress(b); err == nil && (a.qpn >= 1<<24 || a.mtu > 5) {
			t.Errorf("%+v", a)
		}
		if m, err := p.Import(b); err == nil && m.Size() <= 0 {
			t.Errorf("%+v", m)
		}
	})
}
