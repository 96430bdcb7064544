package shm

import (
	"slices"

	"github.com/goccl/goccl/algorithm"
)

// The names that GOCCL_ALGO takes:
//
//	one_shot   all_reduce, reduce: everybody reads everything from the slots; one phase
//	two_shot   all_reduce, reduce: each rank folds its share of the slots, and all read the shares; two phases
//	staged     the other collectives: through the slots, piece by piece
//	direct     in place of the buffers, as far as the processes can map them; staged or two_shot where they cannot
const (
	nameOneShot = "one_shot"
	nameTwoShot = "two_shot"
	nameStaged  = "staged"
	nameDirect  = "direct"
)

var _ algorithm.Lister = (*Engine)(nil)

// names are those of a collective; nil where there is one way only.
func names(c algorithm.Collective) []string {
	switch c {
	case algorithm.AllReduce, algorithm.Reduce:
		return []string{nameOneShot, nameTwoShot, nameDirect}
	case algorithm.ReduceScatter, algorithm.AllGather, algorithm.Gather, algorithm.AllToAll, algorithm.Scatter, algorithm.Broadcast:
		return []string{nameStaged, nameDirect}
	}
	return nil
}

// force keeps what spec, in GOCCL_ALGO's form, names of this engine's.
func (e *Engine) force(spec string) error {
	list, err := algorithm.ParseForced(spec)
	for _, f := range list {
		if slices.Contains(names(f.Collective), f.Name) {
			e.forced[f.Collective] = f.Name
		}
	}
	return err
}

// goesDirect says whether requests of a size are done in place of the buffers, where possible.
func (e *Engine) goesDirect(c algorithm.Collective, total int64) bool {
	switch e.forced[c] {
	case "":
		return total >= directFrom
	case nameDirect:
		return total > 0
	}
	return false
}

// goesOneShot says the same of pieces that every rank folds for itself.
func (e *Engine) goesOneShot(c algorithm.Collective, piece int64) bool {
	switch e.forced[c] {
	case nameOneShot:
		return true
	case nameTwoShot:
		return false
	}
	return piece <= oneShotBytes
}

// Algorithms implements algorithm.Lister. Tags: phases is how often all ranks meet, for a message of one piece.
func (e *Engine) Algorithms() []algorithm.Info {
	var list []algorithm.Info
	for c := algorithm.AllReduce; c <= algorithm.Barrier; c++ {
		for _, name := range names(c) {
			info := algorithm.Info{Name: name, Collective: c, Most: algorithm.AnySize, Forceable: true, Tags: map[string]uint64{"phases": 2}}
			from, to := uint64(0), uint64(directFrom-1)
			switch name {
			case nameOneShot:
				info.Tags["phases"], to = 1, oneShotBytes
			case nameTwoShot:
				from = oneShotBytes + 1
			case nameStaged:
				info.Tags["phases"] = 1
			case nameDirect:
				from, to = directFrom, algorithm.AnySize
			}
			switch e.forced[c] {
			case "":
				info.Chosen = []algorithm.Span{{Least: from, Most: to}}
			case name:
				info.Chosen = []algorithm.Span{{Most: algorithm.AnySize}}
			}
			list = append(list, info)
		}
		switch c {
		case algorithm.AllToAllV, algorithm.Send, algorithm.Recv:
			list = append(list, algorithm.Info{Name: "rings", Collective: c, Most: algorithm.AnySize, Chosen: []algorithm.Span{{Most: algorithm.AnySize}}})
		}
	}
	list = append(list, algorithm.Info{Name: "rings", Collective: algorithm.AllToAllVDevice, Most: algorithm.AnySize, Chosen: []algorithm.Span{{Most: algorithm.AnySize}}})
	return append(list, algorithm.Info{Name: "meeting", Collective: algorithm.Barrier, Tags: map[string]uint64{"phases": 1}, Chosen: []algorithm.Span{{}}})
}
