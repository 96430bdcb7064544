package ib

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/internal/sysfile"
)

// machine writes a /sys/class/infiniband with files by path.
func machine(t *testing.T, files map[string]string) sysfs {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return sysfs{sysfile.Root(root)}
}

// hgx is a host with InfiniBand, a bonded RoCE port, a port without a link and a device of two ports.
func hgx(t *testing.T) sysfs {
	files := map[string]string{}
	for _, d := range []struct{ name, state, layer, rate string }{
		{"mlx5_0/ports/1", "4: ACTIVE", "InfiniBand", "400 Gb/sec (4X NDR)"},
		{"mlx5_2/ports/1", "1: DOWN", "InfiniBand", "10 Gb/sec (4X SDR)"},
		{"mlx5_10/ports/1", "4: ACTIVE", "InfiniBand", "400 Gb/sec (4X NDR)"},
		{"mlx5_3/ports/1", "4: ACTIVE", "Ethernet", "25 Gb/sec (1X EDR)"},
		{"mlx5_3/ports/2", "4: ACTIVE", "Ethernet", "25 Gb/sec (1X EDR)"},
	} {
		files[d.name+"/state"], files[d.name+"/link_layer"], files[d.name+"/rate"] = d.state, d.layer, d.rate
	}
	for i, g := range []struct{ addr, kind string }{
		{"fe80:0000:0000:0000:0ac0:ebff:fe12:3456", "IB/RoCE v1"}, {"fe80:0000:0000:0000:0ac0:ebff:fe12:3456", "RoCE v2"},
		{"0000:0000:0000:0000:0000:ffff:0a00:0007", "IB/RoCE v1"}, {"0000:0000:0000:0000:0000:ffff:0a00:0007", "RoCE v2"},
		{"2001:0db8:0000:0000:0000:0000:0000:0007", "RoCE v2"}, {"0000:0000:0000:0000:0000:0000:0000:0000", ""},
	} {
		files[fmt.Sprintf("mlx5_3/ports/1/gids/%d", i)] = g.addr
		if g.kind != "" {
			files[fmt.Sprintf("mlx5_3/ports/1/gid_attrs/types/%d", i)] = g.kind
		}
	}
	return machine(t, files)
}

func names(all []adapter) (s []string) {
	for i := range all {
		s = append(s, all[i].name())
	}
	return s
}

func TestAdapters(t *testing.T) {
	s := hgx(t)
	if got := s.devices(); !slices.Equal(got, []string{"mlx5_0", "mlx5_2", "mlx5_3", "mlx5_10"}) {
		t.Errorf("devices %v", got)
	}
	for _, c := range []struct{ spec, want string }{
		{"", "mlx5_0 mlx5_3:1 mlx5_3:2 mlx5_10"},
		{"mlx5_0,mlx5_3:2", "mlx5_0 mlx5_3:2"},
		{"mlx5_1", "mlx5_10"},
		{"=mlx5_1", ""},
		{"=mlx5_10", "mlx5_10"},
		{"^mlx5_1,mlx5_3:1", "mlx5_0 mlx5_3:2"},
		{"^=mlx5_1", "mlx5_0 mlx5_3:1 mlx5_3:2 mlx5_10"},
		{" ^ = mlx5_1", "mlx5_0 mlx5_3:1 mlx5_3:2 mlx5_10"},
		{"mlx5_2", ""}, // no link
	} {
		if got := strings.Join(names(s.usable(setting.IB{Adapters: c.spec})), " "); got != c.want {
			t.Errorf("NCCL_IB_HCA=%q: %q, want %q", c.spec, got, c.want)
		}
	}
	if got := s.usable(setting.IB{Disabled: true}); len(got) > 0 {
		t.Errorf("NCCL_IB_DISABLE=1: %v", names(got))
	}
	all := s.usable(setting.DefaultIB)
	if all[0].speed != 50e9 || all[1].speed != 25e9/8 || all[0].roce || !all[1].roce {
		t.Errorf("%+v", all)
	}
	if got := (sysfs{sysfile.Root(t.TempDir())}).usable(setting.DefaultIB); len(got) > 0 {
		t.Errorf("no adapters: %v", names(got))
	}
}

func TestGIDIndex(t *testing.T) {
	a := &hgx(t).adapters("mlx5_3")[0]
	table := a.gids()
	if len(table) != 5 || table[3].addr != netip.MustParseAddr("10.0.0.7") || !table[3].v2 || table[2].v2 {
		t.Fatalf("%+v", table)
	}
	without := func(drop ...int) []gid {
		return slices.DeleteFunc(slices.Clone(table), func(g gid) bool { return slices.Contains(drop, g.index) })
	}
	for _, c := range []struct {
		table  []gid
		wanted int
		want   int
	}{
		{table, -1, 3},                      // RoCE v2, IPv4
		{without(3), -1, 4},                 // RoCE v2, IPv6
		{without(3, 4), -1, 1},              // RoCE v2, link-local
		{without(1, 3, 4), -1, 0},           // RoCE v1
		{table, 4, 4},                       // wanted
		{table, 9, -1}, {without(4), 4, -1}, // wanted, and not there
		{nil, -1, -1},
	} {
		got, err := a.gidIndex(c.table, c.wanted)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("of %s, wanted %d: %d, %v; want %d", addresses(c.table), c.wanted, got, err, c.want)
		}
	}
	if _, err := a.gidIndex(table, 9); err == nil || !strings.Contains(err.Error(), "NCCL_IB_GID_INDEX") ||
		!strings.Contains(err.Error(), "10.0.0.7") {
		t.Errorf("%v: does not say what there is", err)
	}
	ib := &hgx(t).adapters("mlx5_0")[0]
	if got, err := ib.gidIndex(nil, -1); err != nil || got != 0 {
		t.Errorf("InfiniBand: %d, %v", got, err)
	}
}

// TestWithoutAdapters expects no NIC, and errors that say why, where there is none.
func TestWithoutAdapters(t *testing.T) {
	n := New(options())
	nics, err := n.NICs()
	if err != nil {
		t.Fatal(err)
	}
	if len(nics) > 0 {
		t.Skip("this host has RDMA adapters")
	}
	for what, open := range map[string]func() error{
		"Open":       func() error { _, err := n.Open(0); return err },
		"OpenDevice": func() error { _, err := n.OpenDevice(3, 0); return err },
	} {
		if err := open(); err == nil || !strings.Contains(err.Error(), "adapter") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
