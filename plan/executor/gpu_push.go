package executor

import (
	"slices"

	"github.com/goccl/goccl/plan"
)

// push encodes a put to a rank of another host, with its signal.
func (e *gpuEncoder) push(in *instr, m *move, flags uint8) {
	src, dst := m.Src[0], m.Dst[0]
	o := gpuOp{code: gpuPush, flags: flags, sources: 1, destinations: 1, first: uint32(len(e.items)),
		count: uint32(src.Size)}
	if in.raw {
		o.flags |= gpuRaw
	}
	e.limit(&o, in.op)
	e.g.chunks = max(e.g.chunks, src.Size)
	for _, pl := range []plan.Place{src, dst} {
		at := uint32(pl.Index)
		e.items = append(e.items, gpuItem{a: [2]uint8{uint8(pl.Rank), uint8(pl.Plane)}, index: at, block: at / e.period,
			within: at % e.period})
	}
	link := e.link(in.links[m.Entry])
	if in.signal {
		link.within = 1
	}
	e.items = append(e.items, link)
	e.add(in, o)
}

// signals encodes the signals of an op. Signals to other hosts are a separate op, or go with the puts to these hosts.
func (e *gpuEncoder) signals(in *instr, flags uint8, pushed bool) {
	remote := func(l int) bool { return e.prog.isRemote(e.prog.peer[l]) }
	local := slices.DeleteFunc(slices.Clone(in.links), remote)
	if len(local) > 0 {
		o := e.links(local)
		o.code, o.flags = uint8(plan.CodeSignal), flags
		e.add(in, o)
	}
	if len(local) == len(in.links) || pushed {
		return
	}
	first := len(e.items)
	o := e.links(slices.DeleteFunc(slices.Clone(in.links), func(l int) bool { return !remote(l) }))
	for i := range e.items[first:] {
		e.items[first+i].within = 1
	}
	o.code, o.flags = gpuPushSignal, gpuMeet
	e.add(in, o)
}
