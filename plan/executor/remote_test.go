package executor

import (
	"testing"
	"unsafe"
)

// TestSignalsInOneCommand: links at equal distances are one command, and each link gets its signals at the peer.
func TestSignalsInOneCommand(t *testing.T) {
	for _, c := range []struct {
		links    []int
		times    []uint64
		commands int
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
		e := &Executor{hosts: prog.hosts}
		h := &hostEngine{x: &ExecutionPlan{e: e, program: prog}, arenas: []controlArena{{base}}}
		m := &remoteSignal{remoteMemory{&remote{h: h, wake: func() {}}}}
		commands := 0
		prog.remoteSignals(&instr{links: c.links, times: c.times, remote: true}, func(peer, first int, s several) {
			commands++
			if err := m.Add(8*int64(first), s.word()); err != nil || peer != 1 {
				t.Fatal(peer, err)
			}
		})
		if commands != c.commands {
			t.Errorf("%v: %d commands, not %d", c.links, commands, c.commands)
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
