package dsl

import "testing"

func TestSmoke(t *testing.T) {
	p := NewCollectiveProgram(AlgoSpec{Name: "x", Collective: AllReduce(8, 1, true), Instances: 8, ReplicationPolicy: Interleaved})
	sw := p.SwitchChannel([]int{0, 1, 2, 3, 4, 5, 6, 7}, Input)
	ch := map[[2]int]*MemoryChannel{}
	for g := range 8 {
		for q := range 8 {
			if q != g {
				ch[[2]int{q, g}] = p.MemoryChannel(q, g)
			}
		}
	}
	for g := range 8 {
		for q := range 8 {
			if q != g {
				ch[[2]int{q, g}].Signal(TB(0), Relaxed())
			}
		}
		for q := range 8 {
			if q != g {
				ch[[2]int{q, g}].Wait(TB(0), Relaxed(), Sync(SyncAfter))
			}
		}
	}
	for g := range 8 {
		in := p.Rank(g).Input()
		sw.AtRank(g).Reduce(g, 1, in.Slice(g, g+1), TB(0))
		sw.AtRank(g).Broadcast(in.Slice(g, g+1), g, 1, TB(0))
	}
	for g := range 8 {
		for q := range 8 {
			if q != g {
				ch[[2]int{q, g}].Signal(TB(0), Sync(SyncBefore))
			}
		}
		for q := range 8 {
			if q != g {
				ch[[2]int{q, g}].Wait(TB(0))
			}
		}
	}
	pl, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range pl.GPUs[0].ThreadBlocks[1].Ops {
		t.Logf("%+v", o)
	}
	t.Log(len(pl.GPUs[0].ThreadBlocks))
}
