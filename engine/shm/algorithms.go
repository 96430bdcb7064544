package shm

import (
	"cmp"
	"slices"

	"github.com/goccl/goccl/collective"
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
func names(c collective.Collective) []string {
	s, ok := shapeOf(&collective.Request{Collective: c}, 2)
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
	list, err := collective.ParseForced(spec)
	for _, f := range list {
		if slices.Contains(names(f.Collective), f.Name) {
			e.forced[f.Collective] = f.Name
		}
	}
	return err
}

// choice returns the algorithm that the request or GOCCL_ALGO names; "" if none does.
func (e *Engine) choice(r *collective.Request) string {
	return cmp.Or(r.Algorithm, e.forced[r.Collective])
}

// goesDirect reports whether requests of this size run straight between the buffers, where possible.
func (e *Engine) goesDirect(r *collective.Request, total int64) bool {
	switch e.choice(r) {
	case "":
		return total >= directFrom
	case nameDirect:
		return total > 0
	}
	return false
}

// goesOneShot reports whether each rank reduces pieces of this size for itself.
func (e *Engine) goesOneShot(r *collective.Request, piece int64) bool {
	switch e.choice(r) {
	case nameOneShot:
		return true
	case nameTwoShot:
		return false
	}
	return piece <= oneShotBytes
}

// Algorithms implements collective.Engine. The tag phases is how often all ranks synchronize, for a message of one
// piece.
func (e *Engine) Algorithms() []collective.Info {
	var list []collective.Info
	for c := collective.AllReduce; c <= collective.Barrier; c++ {
		for _, name := range names(c) {
			info := collective.Info{Name: name, Collective: c, Most: collective.AnySize,
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
				from, to = directFrom, collective.AnySize
			}
			switch e.forced[c] {
			case "":
				info.Chosen = []collective.Span{{Least: from, Most: to}}
			case name:
				info.Chosen = []collective.Span{{Most: collective.AnySize}}
			}
			list = append(list, info)
		}
		switch c {
		case collective.AllToAllV, collective.Send, collective.Recv:
			list = append(list, collective.Info{Name: "rings", Collective: c, Most: collective.AnySize,
				Chosen: []collective.Span{{Most: collective.AnySize}}})
		}
	}
	list = append(list, collective.Info{Name: "rings", Collective: collective.AllToAllVDevice, Most: collective.AnySize,
		Chosen: []collective.Span{{Most: collective.AnySize}}})
	return append(list, collective.Info{Name: "meeting", Collective: collective.Barrier,
		Tags:   map[string]uint64{"phases": 1},
		Chosen: []collective.Span{{}}})
}
