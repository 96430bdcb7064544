package nvlink

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/plain"
)

// TableName implements collective.Engine.
func (e *Engine) TableName() string { return e.tableName }

// Algorithms implements collective.Engine. The tags are: shots is how often data crosses the links; ll128 is 1 for the
// protocol with 120 data bytes per 128; ring is 1 for whole lines sent to the next rank only; direct is 1 for work in
// the users' buffers; stream is 1 for messages to one peer after another; copy_engine is 1 for copies without a
// kernel. The copy_engine algorithms are listed unless a rank sets GOCCL_COPY_ENGINE=0. They are chosen if the buffer
// is in a window, so Chosen does not list sizes for them.
func (e *Engine) Algorithms() []collective.Info {
	var list []collective.Info
	add := func(c collective.Collective, name string, least, most uint64, chosen []collective.Span, tags ...string) {
		info := collective.Info{Name: name, Collective: c, Least: least, Most: most, Chosen: chosen,
			Tags: map[string]uint64{"shots": 1}}
		for _, t := range tags {
			info.Tags[t] = 1
		}
		list = append(list, info)
	}
	packets := func(c collective.Collective, most uint64) {
		add(c, "packets", 0, most, []collective.Span{{Most: most}})
		list[len(list)-1].Tags["ll128"] = plain.Bit[uint64](!e.table.noLL128)
	}
	for c := collective.AllReduce; c < collective.Barrier; c++ {
		for _, name := range e.Variants(c) {
			list = append(list, e.infoOf(c, name))
		}
		switch c {
		case collective.Broadcast:
			if most := uint64(e.broadcastMessages()); most > 0 {
				list[len(list)-1].Chosen = []collective.Span{{Least: most + 1, Most: collective.AnySize}}
				packets(c, most)
			}
		case collective.AllGather, collective.AllToAll:
			if e.size == 1 {
				continue
			}
			if e.windows != nil {
				add(c, "copy_engine", uint64(e.copiesFrom(c, e.own.policy))*uint64(e.size), collective.AnySize, nil,
					"copy_engine")
			}
			from := uint64(e.sliceFrom()) * uint64(e.size)
			add(c, "stream", from, collective.AnySize, e.table.spans(c, from, collective.AnySize,
				func(x variant) bool { return !x.wide() }), "stream")
		case collective.AllToAllV, collective.Gather, collective.Scatter, collective.Send, collective.Recv:
			from := uint64(e.batch.from)
			if c != collective.AllToAllV { // whose stream is one of its variants
				add(c, "stream", from, collective.AnySize, nil, "stream")
			}
			list[len(list)-1].Chosen = []collective.Span{{Least: from, Most: collective.AnySize}}
			packets(c, from-1)
		}
	}
	add(collective.Barrier, "one_shot_ll", 0, 0, []collective.Span{{}})
	list[len(list)-1].Tags["ll128"] = 0
	packets(collective.AllToAllVDevice, collective.AnySize)
	return list
}

// infoOf describes a variant that a table can name.
func (e *Engine) infoOf(c collective.Collective, name string) collective.Info {
	v, _ := parseVariant(c, name)
	tags := map[string]uint64{"shots": 1 + plain.Bit[uint64](v.twoShot), "ll128": plain.Bit[uint64](v.protocol == ll128)}
	if v.wide() {
		tags[v.protocol.String()] = 1
	}
	most := collective.AnySize
	if v.protocol == lamport && pushes(e.size) {
		most = uint64(lamportMost(v.twoShot, e.size))
	}
	if (c == collective.AllGather || c == collective.AllToAll) && e.size > 1 && !v.wide() {
		most = uint64(e.sliceFrom())*uint64(e.size) - 1
	}
	return collective.Info{Name: name, Collective: c, Most: most, Tags: tags, Forceable: true,
		Chosen: e.table.spans(c, 0, most, func(x variant) bool {
			return x.twoShot == v.twoShot && x.protocol == v.protocol
		})}
}

// spans lists the sizes from least to most for which a wanted variant is chosen in eager calls with 4-byte elements.
func (s *selection) spans(c collective.Collective, least, most uint64, wanted func(variant) bool) []collective.Span {
	var out []collective.Span
	from := uint64(0)
	for _, r := range s.rows[c][0][widthOf(datatype.Float32.Size())] {
		to := uint64(r.bytes)
		if r.bytes == 0 {
			to = collective.AnySize
		}
		if to = min(to, most); from > to {
			break
		}
		if to >= least && wanted(r.variant) {
			if n := len(out); n > 0 && out[n-1].Most+1 == from {
				out[n-1].Most = to
			} else {
				out = append(out, collective.Span{Least: max(from, least), Most: to})
			}
		}
		from = to + 1
	}
	return out
}
