package nvlink

import (
	"testing"
	"unsafe"

	"github.com/goccl/goccl/algorithm"
)

func TestLoadTable(t *testing.T) {
	for _, c := range []struct {
		gpu         string
		ranks, want int
	}{{"NVIDIA H200", 4, 4}, {"NVIDIA H200", 3, 2}, {"NVIDIA H200", 16, 8}, {"some other GPU", 8, 8}} {
		got, err := LoadTable(c.gpu, c.ranks)
		if err != nil {
			t.Fatal(err)
		}
		if got.Ranks != c.want {
			t.Errorf("LoadTable(%q, %d) is for %d ranks: want %d", c.gpu, c.ranks, got.Ranks, c.want)
		}
	}
}

func TestTableRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"unknown collective": `{"gpu":"x","ranks":2,"collectives":{"all_sort":[{"bytes":0,"algorithm":"one_shot_ll"}]}}`,
		"unknown algorithm":  `{"gpu":"x","ranks":2,"collectives":{"all_reduce":[{"bytes":0,"algorithm":"three_shot"}]}}`,
		"threads":            `{"gpu":"x","ranks":2,"collectives":{"all_reduce":[{"bytes":0,"algorithm":"one_shot_ll/100"}]}}`,
		"no last row":        `{"gpu":"x","ranks":2,"collectives":{"all_reduce":[{"bytes":1,"algorithm":"one_shot_ll"}]}}`,
		"descending":         `{"gpu":"x","ranks":2,"collectives":{"all_reduce":[{"bytes":9,"algorithm":"one_shot_ll"},{"bytes":3,"algorithm":"one_shot_ll"},{"bytes":0,"algorithm":"one_shot_ll"}]}}`,
		"unknown field":      `{"gpu":"x","ranks":2,"rows":1}`,
	} {
		if _, err := decodeTable(name, []byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestForce(t *testing.T) {
	var s selection
	if err := s.force("all_reduce:two_shot_ll/64,allgather:one_shot_ll128"); err != nil {
		t.Fatal(err)
	}
	if v := s.pick(algorithm.AllReduce, 1); !v.twoShot || v.protocol != ll || v.threads != 64 {
		t.Errorf("all_reduce: %+v", v)
	}
	if v := s.pick(algorithm.AllGather, 1<<30); v.twoShot || v.protocol != ll128 {
		t.Errorf("all_gather: %+v", v)
	}
	for _, bad := range []string{"all_reduce", "all_reduce:nothing", "nothing:one_shot_ll"} {
		if err := s.force(bad); err == nil {
			t.Errorf("force(%q): accepted", bad)
		}
	}
}

// The kernels read these structs as they lie in memory (kernels/collective/args.cuh, p2p.cuh).
func TestLayout(t *testing.T) {
	var a collectiveArgs
	var p p2pArgs
	for name, got := range map[string][2]uintptr{
		"Args.abort":      {unsafe.Offsetof(a.abort), 128},
		"Args.bytes":      {unsafe.Offsetof(a.bytes), 160},
		"Args.rank":       {unsafe.Offsetof(a.rank), 184},
		"Args.root":       {unsafe.Offsetof(a.root), 200},
		"Args.scalar":     {unsafe.Offsetof(a.scalar), 208},
		"Args":            {unsafe.Sizeof(a), 224},
		"P2PArgs.lane":    {unsafe.Offsetof(p.lane), 160},
		"P2PArgs.message": {unsafe.Offsetof(p.message), 416},
		"P2PArgs":         {unsafe.Sizeof(p), 416 + 16*p2pMaxMessages},
		"Lane":            {unsafe.Sizeof(p.lane[0]), 8},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, the kernels have %d", name, got[0], got[1])
		}
	}
}
