package plan

import (
	"fmt"
	"slices"
	"strings"
)

// values holds all symbolic values. A value is the content of a place: undefined (0), one input chunk, or two values
// combined. Values are indices into values.nodes. Combining the same two values gives the same index, so there are few.
type values struct {
	nodes []valueNode
	memo  map[combination]int32
	leafs map[leaf]int32
}

type valueNode struct {
	leaf  leaf
	a, b  int32    // parents of a combination
	op    ReduceOp // of the combination; mixed when the parents were combined under a different operator
	terms int32    // leaves, counted with repetition
	place int32    // position in the block that all leaves have in common, or -1
}

type leaf struct {
	launch, rank, chunk int32
}

type combination struct {
	a, b int32
	op   ReduceOp
}

const (
	undefined          = 0
	mixed     ReduceOp = "mixed"
	maxTerms           = 1 << 24
)

func newValues() *values {
	return &values{nodes: []valueNode{{place: -1}}, memo: map[combination]int32{}, leafs: map[leaf]int32{}}
}

func (v *values) input(l leaf, period int) int32 {
	if id, ok := v.leafs[l]; ok {
		return id
	}
	id := int32(len(v.nodes))
	v.nodes = append(v.nodes, valueNode{leaf: l, terms: 1, place: l.chunk % int32(period)})
	v.leafs[l] = id
	return id
}

// combine returns a op b. If either is undefined, so is the result.
func (v *values) combine(a, b int32, op ReduceOp) int32 {
	if a == undefined || b == undefined {
		return undefined
	}
	k := combination{a, b, op}
	if id, ok := v.memo[k]; ok {
		return id
	}
	na, nb := &v.nodes[a], &v.nodes[b]
	n := valueNode{a: a, b: b, op: op, terms: min(na.terms+nb.terms, maxTerms), place: na.place}
	if na.place != nb.place {
		n.place = -1
	}
	for _, p := range []*valueNode{na, nb} {
		if p.terms > 1 && p.op != op {
			n.op = mixed
		}
	}
	id := int32(len(v.nodes))
	v.nodes = append(v.nodes, n)
	v.memo[k] = id
	return id
}

// terms returns the leaves of value id, sorted, at most limit of them.
func (v *values) terms(id int32, limit int) []leaf {
	var out []leaf
	stack := []int32{id}
	for len(stack) > 0 && len(out) < limit {
		n := &v.nodes[stack[len(stack)-1]]
		stack = stack[:len(stack)-1]
		switch {
		case n.terms == 1:
			out = append(out, n.leaf)
		case n.terms > 1:
			stack = append(stack, n.a, n.b)
		}
	}
	slices.SortFunc(out, compareLeaf)
	return out
}

func compareLeaf(a, b leaf) int {
	switch {
	case a.launch != b.launch:
		return int(a.launch - b.launch)
	case a.rank != b.rank:
		return int(a.rank - b.rank)
	}
	return int(a.chunk - b.chunk)
}

// describe returns a description of the value, for a launch.
func (v *values) describe(id int32, launch int) string {
	n := &v.nodes[id]
	if n.terms == 0 {
		return "nothing defined"
	}
	const most = 8
	var b strings.Builder
	if n.terms > 1 {
		op := string(n.op)
		if n.op == CallerOp {
			op = "reduction"
		}
		fmt.Fprintf(&b, "%s of ", op)
	}
	for i, l := range v.terms(id, most+1) {
		if i == most {
			fmt.Fprintf(&b, ", … (%d in all)", n.terms)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(l.String())
		if int(l.launch) != launch {
			fmt.Fprintf(&b, " of launch %d", l.launch+1)
		}
	}
	return b.String()
}

func (l leaf) String() string { return fmt.Sprintf("rank %d's chunk %d", l.rank, l.chunk) }
