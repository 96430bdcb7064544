package shm

import (
	"slices"

	"github.com/goccl/goccl/algorithm"
)

// These are the names that GOCCL_ALGO accepts:
//
//	one_shot   all_reduce, reduce: each rank reads all slots; one phase
//	two_shot   all_reduce, reduce: each rank reduces its share of the slots, and all read the shares; two phases
//	staged     the other collectives: through the slots, piece by piece
//	direct     straight between the buffers, if the processes can map them; else staged or two_shot
const (
	nameOneShot = "one_shot"
	nameTwoShot = "two_shot"
	nameStaged  = "staged"
	nameDirect  = "direct"
)

// names lists the algorithms of a collective; it is nil if there is only one.
func names(c algorithm.Collective) []string {
	s, ok := shapeOf(&algorithm.Request{Collective: c}, 2)
	switch {
	case !ok:
		return nil
	case s.shared():
		return []string{nameOneShot, nameTwoShot, nameDirect}
	}
	return []string{nameStaged, nameDirect}
}

// force stores the choices of spec, in the format of GOCCL_ALGO, that name algorithms of this engine.
func (e *Engine) force(spec string) error {
	list, err := algorithm.ParseForced(spec)
	for _, f := range list {
		if slices.Contains(names(f.Collective), f.Name) {
			e.forced[f.Collective] = f.Name
		}
	}
	return err
}

// goesDirect reports whether requests of this size run straight between the buffers, where possible.
func (e *Engine) goesDirect(c algorithm.Collective, total int64) bool {
	switch e.forced[c] {
	case "":
		return total >= directFrom
	case nameDirect:
		return total > 0
	}
	return false
}

// goesOneShot reports whether each rank reduces pieces of this size for itself.
func (e *Engine) goesOneShot(c algorithm.Collective, piece int64) bool {
	switch e.forced[c] {
	case nameOneShot:
		return true
	case nameTwoShot:
		return false
	}
	return piece <= oneShotBytes
}

// Algorithms implements algorithm.Engine. The tag phases is how often all ranks synchronize, for a message of one
// piece.
func (e *Engine) Algorithms() []algorithm.Info {
	var list []algorithm.Info
	for c := algorithm.AllReduce; c <= algorithm.Barrier; c++ {
		for _, name := range names(c) {
			info := algorithm.Info{Name: name, Collective: c, Most: algorithm.AnySize,
				Forceable: true, Tags: map[string]uint64{"phases": 2}}
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
			list = append(list, algorithm.Info{Name: "rings", Collective: c, Most: algorithm.AnySize,
				Chosen: []algorithm.Span{{Most: algorithm.AnySize}}})
		}
	}
	list = append(list, algorithm.Info{Name: "rings", Collective: algorithm.AllToAllVDevice, Most: algorithm.AnySize,
		Chosen: []algorithm.Span{{Most: algorithm.AnySize}}})
	return append(list, algorithm.Info{Name: "meeting", Collective: algorithm.Barrier, Tags: map[string]uint64{"phases": 1},
		Chosen: []algorithm.Span{{}}})
}
