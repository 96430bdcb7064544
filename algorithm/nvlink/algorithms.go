package nvlink

import (
	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
)

// Algorithms implements algorithm.Engine. The tags are: shots is how often data crosses the links; ll128 is 1 for the
// protocol with 120 data bytes per 128; ring is 1 for whole lines sent to the next rank only; stream is 1 for pieces
// sent to one peer after another; copy_engine is 1 for copies without a kernel. The copy_engine algorithms are listed
// unless a rank sets GOCCL_COPY_ENGINE=0. They are chosen if the buffer is in a window, so Chosen does not list sizes
// for them.
func (e *Engine) Algorithms() []algorithm.Info {
	var list []algorithm.Info
	for c := algorithm.AllReduce; c < algorithm.Barrier; c++ {
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
			most := algorithm.AnySize
			if (c == algorithm.AllGather || c == algorithm.AllToAll) && e.size > 1 && v.protocol != ring {
				most = uint64(e.sliceFrom())*uint64(e.size) - 1
			}
			list = append(list, algorithm.Info{Name: name, Collective: c, Most: most, Tags: tags, Forceable: true, Chosen: e.table.spans(c, 0, most, func(x variant) bool { return x.twoShot == v.twoShot && x.protocol == v.protocol })})
		}
		switch c {
		case algorithm.AllGather, algorithm.AllToAll:
			if e.size == 1 {
				continue
			}
			if e.windows != nil {
				list = append(list, algorithm.Info{Name: "copy_engine", Collective: c, Least: uint64(e.copyMode.from(c)) * uint64(e.size), Most: algorithm.AnySize, Tags: map[string]uint64{"shots": 1, "copy_engine": 1}})
			}
			from := uint64(e.sliceFrom()) * uint64(e.size)
			list = append(list, algorithm.Info{Name: "stream", Collective: c, Least: from, Most: algorithm.AnySize, Tags: map[string]uint64{"shots": 1, "stream": 1},
				Chosen: e.table.spans(c, from, algorithm.AnySize, func(x variant) bool { return x.protocol != ring })})
		case algorithm.AllToAllV, algorithm.Gather, algorithm.Scatter, algorithm.Send, algorithm.Recv:
			from := uint64(e.batch.from)
			if from > 0 {
				list = append(list, algorithm.Info{Name: "packets", Collective: c, Most: from - 1, Tags: map[string]uint64{"shots": 1, "ll128": 1}, Chosen: []algorithm.Span{{Most: from - 1}}})
			}
			list = append(list, algorithm.Info{Name: "stream", Collective: c, Least: from, Most: algorithm.AnySize, Tags: map[string]uint64{"shots": 1, "stream": 1},
				Chosen: []algorithm.Span{{Least: from, Most: algorithm.AnySize}}})
		}
	}
	list = append(list, algorithm.Info{Name: "one_shot_ll", Collective: algorithm.Barrier, Tags: map[string]uint64{"shots": 1, "ll128": 0}, Chosen: []algorithm.Span{{}}})
	if e.table.pcie {
		return list
	}
	return append(list,
		algorithm.Info{Name: "packets", Collective: algorithm.AllToAllVDevice, Most: algorithm.AnySize, Tags: map[string]uint64{"shots": 1, "ll128": 1},
			Chosen: []algorithm.Span{{Most: algorithm.AnySize}}})
}

// spans lists the sizes from least to most for which a wanted variant is chosen in eager calls with 4-byte elements.
func (s *selection) spans(c algorithm.Collective, least, most uint64, wanted func(variant) bool) []algorithm.Span {
	var out []algorithm.Span
	from := uint64(0)
	for _, r := range s.rows[c][0][widthOf(datatype.Float32.Size())] {
		to := uint64(r.bytes)
		if r.bytes == 0 {
			to = algorithm.AnySize
		}
		if to = min(to, most); from > to {
			break
		}
		if to >= least && wanted(r.variant) {
			if n := len(out); n > 0 && out[n-1].Most+1 == from {
				out[n-1].Most = to
			} else {
				out = append(out, algorithm.Span{Least: max(from, least), Most: to})
			}
		}
		from = to + 1
	}
	return out
}
