package collective

import (
	"fmt"
	"strings"
)

// Forced is one choice of GOCCL_ALGO: the algorithm Name runs the collective.
type Forced struct {
	Collective Collective
	Name       string
}

// ParseForced parses GOCCL_ALGO: collective:algorithm, separated by commas, like
// all_reduce:two_shot_ll128,all_gather:one_shot_ll/64. If a collective occurs twice, the last choice counts.
func ParseForced(spec string) ([]Forced, error) {
	var list []Forced
	for f := range strings.SplitSeq(spec, ",") {
		if f = strings.TrimSpace(f); f == "" {
			continue
		}
		coll, name, ok := strings.Cut(f, ":")
		c, err := ParseCollective(coll)
		if !ok || err != nil || name == "" {
			return nil, fmt.Errorf("%w: GOCCL_ALGO=%q: write collective:algorithm, like all_reduce:two_shot_ll128; "+
				"collectives are %s", ErrInvalidArgument, f, strings.Join(collectiveNames[1:], ", "))
		}
		list = append(list, Forced{c, name})
	}
	return list, nil
}
