package executor

import (
	"testing"
	"unsafe"
)

// TestSignalsInOneRecord: links at equal distances are one record, and each link gets its signals at the peer.
func TestSignalsInOneRecord(t *testing.T) {
	for _, c := range []struct {
		links   []int
		times   []uint64
		records int
	}{
		{[]int{2}, []uint64{3}, 1},
		{[]int{0, 1, 2, 3}, []uint64{1, 1, 1, 1}, 1},
		{[]int{1, 3, 5, 6}, []uint64{1, 1, 1, 1}, 2},
		{[]int{0, 3, 6}, []uint64{2, 2, 1}, 2},
		{[]int{5, 2, 0}, []uint64{1, 1, 1}, 3},
	} {
		const links = 8
		prog := &program{hosts: []int{0, 1}, links: links}
		for l := range links {
			prog.peer, prog.pair = append(prog.peer, 1), append(prog.pair, l)
		}
		memory := make([]uint64, (controlBytes(links)+63)/8+8)
		base := unsafe.Pointer(&memory[0])
		base = unsafe.Add(base, -uintptr(base)&63)
		out := &outbox{}
		out.more.L = &out.mu
		e := &Executor{hosts: prog.hosts, ports: &ports{out: []*outbox{nil, out}}}
		h := &hostEngine{x: &ExecutionPlan{e: e, program: prog}, arenas: []controlArena{{base}}}
		f := &far{h: h, wake: func() {}}
		f.signals(&instr{links: c.links, times: c.times, far: true})
		if len(out.queue) != c.records {
			t.Errorf("%v: %d records, not %d", c.links, len(out.queue), c.records)
		}
		m := &farSignal{farMemory{f}}
		for _, x := range out.queue {
			if err := m.Add(int64(x.dst.Offset), x.value); err != nil {
				t.Fatal(err)
			}
		}
		want := make([]uint64, links)
		for i, l := range c.links {
			want[l] = c.times[i]
		}
		for l := range links {
			if got := h.arenas[0].inbound(l).Load(); got != want[l] {
				t.Errorf("%v: link %d has %d signals, not %d", c.links, l, got, want[l])
			}
		}
	}
}
