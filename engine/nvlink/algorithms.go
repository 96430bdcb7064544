package nvlink

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
)

// TableName implements collective.Engine.
func (e *Engine) TableName() string { return e.tableName }

// Algorithms implements collective.Engine. The tags are: shots is how often data crosses the links; ll128 is 1 for the
// protocol with 120 data bytes per 128; ring is 1 for whole lines sent to the next rank only; stream is 1 for pieces
// sent to one peer after another; copy_engine is 1 for copies without a kernel. The copy_engine algorithms are listed
// unless a rank sets GOCCL_COPY_ENGINE=0. They are chosen if the buffer is in a window, so Chosen does not list sizes
// for them.
func (e *Engine) Algorithms() []collective.Info {
	var list []collective.Info
	packets := map[string]uint64{"shots": 1, "ll128": uint64(btoi(!e.table.noLines))}
	for c := collective.AllReduce; c < collective.Barrier; c++ {
		for _, name := range e.Variants(c) {
			v, _ := parseVariant(c, name)
			tags := map[string]uint64{"shots": 1, "ll128": 0}
			if v.twoShot {
				tags["shots"] = 2
			}
			if v.protocol == ll128 {
				tags["ll128"] = 1
			}
			if v.protocol == ring {
				tags["ring"] = 1
			}
			most := collective.AnySize
			if v.protocol == lamport {
				most = uint64(e.lamport.MostBytes())
			}
			if (c == collective.AllGather || c == collective.AllToAll) && e.size > 1 && v.protocol != ring {
				most = uint64(e.sliceFrom())*uint64(e.size) - 1
			}
			list = append(list, collective.Info{Name: name, Collective: c, Most: most, Tags: tags, Forceable: true,
				Chosen: e.table.spans(c, 0, most, func(x variant) bool {
					return x.twoShot == v.twoShot &&
						x.protocol == v.protocol
				})})
		}
		if most := e.broadcastMessages(); c == collective.Broadcast && most > 0 {
			list[len(list)-1].Chosen = []collective.Span{{Least: uint64(most) + 1, Most: collective.AnySize}}
			list = append(list, collective.Info{Name: "packets", Collective: c, Most: uint64(most), Tags: packets,
				Chosen: []collective.Span{{Most: uint64(most)}}})
		}
		switch c {
		case collective.AllGather, collective.AllToAll:
			if e.size == 1 {
				continue
			}
			if e.windows != nil {
				list = append(list, collective.Info{Name: "copy_engine", Collective: c,
					Least: uint64(e.copyMode.from(c, e.own.policy)) * uint64(e.size), Most: collective.AnySize,
					Tags: map[string]uint64{"shots": 1, "copy_engine": 1}})
			}
			from := uint64(e.sliceFrom()) * uint64(e.size)
			list = append(list, collective.Info{Name: "stream", Collective: c, Least: from, Most: collective.AnySize,
				Tags:   map[string]uint64{"shots": 1, "stream": 1},
				Chosen: e.table.spans(c, from, collective.AnySize, func(x variant) bool { return x.protocol != ring })})
		case collective.AllToAllV, collective.Gather, collective.Scatter, collective.Send, collective.Recv:
			from := uint64(e.batch.from)
			list = append(list, collective.Info{Name: "packets", Collective: c, Most: from - 1,
				Tags: packets, Chosen: []collective.Span{{Most: from - 1}}})
			list = append(list, collective.Info{Name: "stream", Collective: c, Least: from, Most: collective.AnySize,
				Tags:   map[string]uint64{"shots": 1, "stream": 1},
				Chosen: []collective.Span{{Least: from, Most: collective.AnySize}}})
		}
	}
	list = append(list, collective.Info{Name: "one_shot_ll", Collective: collective.Barrier,
		Tags: map[string]uint64{"shots": 1, "ll128": 0}, Chosen: []collective.Span{{}}})
	return append(list,
		collective.Info{Name: "packets", Collective: collective.AllToAllVDevice, Most: collective.AnySize, Tags: packets,
			Chosen: []collective.Span{{Most: collective.AnySize}}})
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
