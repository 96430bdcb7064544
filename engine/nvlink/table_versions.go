package nvlink

import (
	"slices"
	"strings"

	"github.com/goccl/goccl/collective"
)

// withoutRings replaces the rings of earlier versions.
func (t *Table) withoutRings() {
	replace := func(rows []Row) {
		for i := range rows {
			if collective.BaseName(rows[i].Algorithm) == "ring" {
				rows[i].Algorithm = slicesName
			}
		}
	}
	for _, rows := range t.Collectives {
		replace(rows)
	}
	for i := range t.Special {
		replace(t.Special[i].Rows)
	}
}

// upgrade returns the name of the variant that version 1 ran for a collective under a name that the collective does
// not have.
func upgrade(operation, name string) string {
	c, err := collective.ParseCollective(operation)
	if err != nil || slices.Contains(Variants(c), collective.BaseName(name)) || collective.BaseName(name) == "ring" {
		return name
	}
	switch c {
	case collective.AllGather, collective.ReduceScatter, collective.AllToAll:
		return strings.Replace(name, "two_shot", "one_shot", 1)
	case collective.Reduce, collective.Broadcast:
		base := collective.BaseName(name)
		if slices.Contains(variantNames, base) {
			return "two_shot_ll128" + name[len(base):]
		}
	}
	return name
}
