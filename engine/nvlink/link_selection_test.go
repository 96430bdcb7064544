package nvlink

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/share"
	"github.com/goccl/goccl/job/topo"
)

var errDeaf = errors.New("it is deaf")

// twoPairs are four ranks: NVLink within 0, 1 and within 2, 3; PCIe of another NUMA node between them.
func twoPairs() *linkSelection {
	l := &linkSelection{all: make([]hello, 4), paths: make([][]path, 4)}
	for a := range l.paths {
		l.paths[a] = make([]path, 4)
		for b := range l.paths[a] {
			l.paths[a][b] = path{Link: cuda.PCIe, Apart: setting.P2PSystem}
			switch {
			case a == b:
				l.paths[a][b].Link = cuda.SameGPU
			case a/2 == b/2:
				l.paths[a][b] = path{Link: cuda.NVLink, Apart: setting.P2PSwitch}
			}
		}
	}
	return l
}

// The link of each pair is the best that the GPUs have and that the environment of every rank allows.
func TestLinkSelection(t *testing.T) {
	for _, c := range []struct {
		name        string
		change      func(l *linkSelection)
		near, far   LinkKind // within a pair of NVLink, and between the two
		why, whyFar string
	}{
		{"as it is", func(*linkSelection) {}, NVLink, PCIe, "", "no NVLink"},
		{"NCCL_P2P_DISABLE of one rank", func(l *linkSelection) { l.all[2].NoP2P = true }, HostMemory, HostMemory,
			"NCCL_P2P_DISABLE=1 on rank 2", "rank 2"},
		{"NCCL_P2P_LEVEL=NVL", func(l *linkSelection) { l.all[1].P2PLevel = setting.P2PNVLink }, NVLink, HostMemory, "",
			"NCCL_P2P_LEVEL of rank 1"},
		{"NCCL_P2P_LEVEL=PHB", func(l *linkSelection) { l.all[1].P2PLevel = setting.P2PHostBridge }, NVLink, HostMemory, "",
			"NCCL_P2P_LEVEL"},
		{"NCCL_P2P_LEVEL=SYS", func(l *linkSelection) { l.all[1].P2PLevel = setting.P2PSystem }, NVLink, PCIe, "",
			"no NVLink"},
		{"NCCL_P2P_LEVEL=LOC", func(l *linkSelection) { l.all[3].P2PLevel = setting.P2PNever }, HostMemory, HostMemory,
			"NCCL_P2P_LEVEL of rank 3", "NCCL_P2P_LEVEL"},
		{"one direction is missing", func(l *linkSelection) { l.paths[3][0].Link = cuda.NoLink }, NVLink, HostMemory, "",
			"no peer access"},
		{"no bytes arrive", func(l *linkSelection) { l.lose(peerMemory, errDeaf) }, HostMemory, HostMemory, "deaf",
			"deaf"},
		{"no link is left", func(l *linkSelection) { l.lose(peerMemory, errDeaf); l.all[1].NoHostMemory = true }, Network,
			Network,
			"deaf, and NCCL_SHM_DISABLE=1 on rank 1", "deaf"},
		{"no medium works", func(l *linkSelection) { l.lose(peerMemory, errDeaf); l.lose(hostMemory, errDeaf) }, Network,
			Network,
			"deaf, and it is deaf", "deaf"},
		{"NCCL_SHM_DISABLE alone", func(l *linkSelection) { l.all[1].NoHostMemory = true }, NVLink, PCIe, "", "no NVLink"},
		{"GOCCL_LINK=host", func(l *linkSelection) {
			for r := range l.all {
				l.all[r].Link = setting.LinkHost
			}
		}, HostMemory, HostMemory, "GOCCL_LINK=host", "GOCCL_LINK=host"},
	} {
		l := twoPairs()
		c.change(l)
		near, far := l.pair(0, 1), l.pair(0, 3)
		if near.Kind != c.near || far.Kind != c.far || !strings.Contains(near.Reason, c.why) ||
			!strings.Contains(far.Reason, c.whyFar) {
			t.Errorf("%s: %+v, %+v", c.name, near, far)
		}
		if err := l.possible(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if worst := l.worst(); worst.Kind != c.far || len(l.pairs()) != 6 {
			t.Errorf("%s: worst is %+v of %v", c.name, worst, l.pairs())
		}
	}
	same := twoPairs()
	same.paths[0][1].Link, same.paths[1][0].Link, same.all[0].NoP2P = cuda.SameGPU, cuda.SameGPU, true
	if p := same.pair(0, 1); p.Kind != NVLink {
		t.Errorf("one GPU needs no peer access: %+v", p)
	}
	same.lose(peerMemory, errDeaf) // as slices of a GPU do that share no memory
	if p := same.pair(0, 1); p.Kind != HostMemory || !strings.Contains(p.Reason, "deaf") {
		t.Errorf("one GPU whose ranks share no memory: %+v", p)
	}
}

// A forced link that cannot work is refused on every rank, with the pair and the reason.
func TestForcedLinkRefused(t *testing.T) {
	for _, c := range []struct {
		link setting.Link
		way  cuda.Link
		want string // "" if it works
	}{
		{setting.LinkNVLink, cuda.PCIe, "GOCCL_LINK=nvlink cannot work between rank 0 (A at 1) and rank 1 (A at 2): " +
			"they are connected by PCIe only"},
		{setting.LinkNVLink, cuda.NoLink, "no peer access"}, {setting.LinkPCIe, cuda.NoLink, "no peer access"},
		{setting.LinkNVLink, cuda.NVLink, ""}, {setting.LinkPCIe, cuda.NVLink, ""}, {setting.LinkHost, cuda.NoLink, ""},
	} {
		l := &linkSelection{all: []hello{{GPU: "A", BusID: "1", Link: c.link}, {GPU: "A", BusID: "2", Link: c.link}},
			paths: [][]path{{{Link: cuda.SameGPU}, {Link: c.way}}, {{Link: c.way}, {Link: cuda.SameGPU}}}}
		err := l.possible()
		if (err == nil) != (c.want == "") ||
			err != nil && (!errors.Is(err, collective.ErrUnsupported) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
	l := twoPairs()
	l.all[2].Link = setting.LinkHost
	if err := l.possible(); !errors.Is(err, collective.ErrMismatch) || !strings.Contains(err.Error(), "GOCCL_LINK") {
		t.Errorf("%v", err)
	}
}

// Without peer access engines take host memory, and with no link kind left all ranks say so.
func TestLinkKindsOfEngines(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		link LinkKind
	}{
		{nil, NVLink},
		{map[string]string{"MOCKCUDA_NO_NVLINK": "1"}, PCIe},
		{map[string]string{"MOCKCUDA_NO_PEER": "1"}, HostMemory},
		{map[string]string{"NCCL_P2P_DISABLE": "1"}, HostMemory},
		{map[string]string{"GOCCL_LINK": "pcie"}, PCIe},
	} {
		for k, v := range c.env {
			t.Setenv(k, v)
		}
		for _, e := range mockEngines(t, 3) {
			if e.gpu.Link != c.link || e.table.noLL128 != (c.link != NVLink) || e.windows != nil != (c.link < HostMemory) {
				t.Errorf("%v: %v, lines %v, windows %v", c.env, e.gpu.Link, !e.table.noLL128, e.windows != nil)
			}
		}
		for k := range c.env {
			t.Setenv(k, "")
		}
	}
	t.Setenv("NCCL_P2P_DISABLE", "1")
	t.Setenv("NCCL_SHM_DISABLE", "1")
	for r, err := range newOnAll(t, 2) {
		if !errors.Is(err, ErrNetwork) || !errors.Is(err, collective.ErrUnsupported) ||
			!strings.Contains(err.Error(), "NCCL_SHM_DISABLE=1") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Arenas in host memory are one memory for all ranks, each part at another address of each rank, and Close unmaps all.
func TestHostArenas(t *testing.T) {
	t.Setenv("GOCCL_LINK", "host")
	before, n := share.Mapped(), 3
	engines := mockEngines(t, n)
	size := layout{n: n}.arenaBytes()
	for r, e := range engines {
		for p := range n {
			copy(device.Bytes(e.arena.Ptr[p].Add(size-int64(r)-1), 1), []byte{byte(10*p + r)})
		}
	}
	for r, e := range engines {
		for p := range n {
			for writer := range n {
				if got := device.Bytes(e.arena.Ptr[p].Add(size-int64(writer)-1), 1)[0]; got != byte(10*p+writer) {
					t.Errorf("part %d as rank %d sees it: %d from rank %d", p, r, got, writer)
				}
			}
		}
	}
	for _, e := range engines {
		must(t, e.Close())
	}
	if got := share.Mapped(); got != before {
		t.Errorf("%d mappings are left", got-before)
	}
}

// goccl topo shows what a machine would use.
func TestExpect(t *testing.T) {
	for _, c := range []struct {
		machine string
		env     setting.Config
		want    string // "": impossible
	}{
		{"8xh200", setting.Config{}, "all NVLink"},
		{"8xh200", setting.Config{NoP2P: true}, "all host memory (NCCL_P2P_DISABLE=1 on rank 0)"},
		{"4xpcie", setting.Config{}, "0-1 PCIe (no NVLink between the two); 0-2 1-2 0-3 1-3 2-3 host memory (the driver " +
			"reports no peer access)"},
		{"4xpcie", setting.Config{Link: setting.LinkPCIe}, ""},
		{"4xpcie", setting.Config{NoHostMemory: true}, "0-1 PCIe (no NVLink between the two); 0-2 1-2 0-3 1-3 2-3 network " +
			"(the driver reports no peer access, and NCCL_SHM_DISABLE=1 on rank 0)"},
		{"laptop", setting.Config{}, ""},
	} {
		text, err := os.ReadFile("../../job/topo/testdata/" + c.machine + ".json")
		if err != nil {
			t.Skip(err) // not a checkout
		}
		m, err := topo.Decode(text)
		must(t, err)
		pairs, err := Expect(m, &c.env)
		if got := Describe(pairs); err == nil && got != c.want || err != nil && c.want != "" {
			t.Errorf("%s %+v: %q, %v", c.machine, c.env, got, err)
		}
	}
}
