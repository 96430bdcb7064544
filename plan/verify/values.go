package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goccl/goccl/plan"
)

// values holds all symbolic values. A value is the content of a place: undefined (0), one input chunk, or two values
// combined. Values are indices into values.nodes. Combining the same two values gives the same index, so there are few.
type values struct {
	nodes []valueNode
	memo  map[combination]int32
	leafs map[leaf]int32

	quotient *quotient
	images   map[imageOf]int32

	ordered map[int32]bool // by value: see inRankOrder

	every map[int32]leaf // by value: see everyRank; of launch -1, none
	stack []imageOf      // for collect
	list  []leaf         // for is, as the next
	found []bool
}

// imageOf is a value whose base, which is no image, is renamed by an element of the quotient.
type imageOf struct{ base, frame int32 }

type valueNode struct {
	leaf  leaf
	a, b  int32         // parents of a combination
	op    plan.ReduceOp // of the combination; mixed when the parents were combined under a different operator
	terms int32         // leaves, counted with repetition
	place int32         // position in the block that all leaves have in common, or -1
	image imageOf       // of an image
}

type leaf struct {
	launch, rank, chunk int32
}

type combination struct {
	a, b int32
	op   plan.ReduceOp
}

const (
	undefined               = 0
	mixed     plan.ReduceOp = "mixed"
	maxTerms                = 1 << 24
)

func newValues() *values {
	return &values{nodes: []valueNode{{place: -1}}, memo: map[combination]int32{}, leafs: map[leaf]int32{},
		images: map[imageOf]int32{}, every: map[int32]leaf{}, ordered: map[int32]bool{}}
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
func (v *values) combine(a, b int32, op plan.ReduceOp) int32 {
	if a == undefined || b == undefined {
		return undefined
	}
	if frame := v.nodes[a].image.frame; frame != 0 { // a value has one form: the first of its leaves is not renamed
		return v.image(frame, v.combine(v.nodes[a].image.base, v.image(v.quotient.Inverse(frame), b), op))
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

// image returns value id renamed by element g of the quotient.
func (v *values) image(g, id int32) int32 {
	if g == 0 || id == undefined {
		return id
	}
	k := imageOf{id, g}
	if n := &v.nodes[id]; n.image.frame != 0 {
		k = imageOf{n.image.base, v.quotient.Mul(g, n.image.frame)}
	}
	if k.frame == 0 {
		return k.base
	}
	if out, ok := v.images[k]; ok {
		return out
	}
	n := v.nodes[k.base]
	n.image = k
	if n.place >= 0 {
		n.place = v.quotient.place(k.frame, n.place)
	}
	out := int32(len(v.nodes))
	v.nodes = append(v.nodes, n)
	v.images[k] = out
	return out
}

// renamed returns leaf l renamed by element g of the quotient.
func (v *values) renamed(l leaf, g int32) leaf {
	if g == 0 {
		return l
	}
	e := v.quotient.Element(g)
	return leaf{l.launch, e.Ranks[l.rank], int32(e.Chunk(plan.InputPlane, int(l.chunk)))}
}

// everyRank returns the launch and the chunk of a value that combines one chunk of each of n ranks, the same of all. Of
// an image these are images, so it looks at the leaves of few values.
func (v *values) everyRank(id int32, n int) (l leaf, ok bool) {
	node := &v.nodes[id]
	if g := node.image.frame; g != 0 {
		l, ok = v.everyRank(node.image.base, n)
		l.chunk = v.renamed(l, g).chunk
		return l, ok
	}
	if int(node.terms) != n {
		return l, false
	}
	if l, ok = v.every[id]; ok {
		return l, l.launch >= 0
	}
	v.list = v.collect(v.list[:0], id, n+1)
	l, seen := v.list[0], make([]bool, n)
	l.rank = 0
	for _, one := range v.list {
		if seen[one.rank] || one.chunk != l.chunk || one.launch != l.launch {
			l.launch = -1
			break
		}
		seen[one.rank] = true
	}
	v.every[id] = l
	return l, l.launch >= 0
}

// is reports whether value id is the reduction of the inputs in a list, which is sorted, in a launch.
func (v *values) is(id int32, launch int32, of []plan.Contribution) bool {
	v.list = v.collect(v.list[:0], id, len(of)+1)
	if len(v.list) != len(of) {
		return false
	}
	found := append(v.found[:0], make([]bool, len(of))...)
	v.found = found
	for _, l := range v.list {
		at := int(l.rank) // where it is if every rank contributes once
		want := plan.Contribution{Rank: int(l.rank), Index: int(l.chunk)}
		if at >= len(of) || of[at] != want || at > 0 && of[at-1] == want {
			at, _ = slices.BinarySearchFunc(of, l, func(c plan.Contribution, l leaf) int {
				return cmp.Or(c.Rank-int(l.rank), c.Index-int(l.chunk))
			})
		}
		for at < len(of) && found[at] {
			at++ // an input that is wanted several times
		}
		if at == len(of) || l.launch != launch || of[at] != want {
			return false
		}
		found[at] = true
	}
	return true
}

// inRankOrder reports whether a value, which is no image, adds one element after the other, of ranks 0, 1, 2, ….
func (v *values) inRankOrder(id int32) bool {
	known, ok := v.ordered[id]
	for at := id; !ok; at = v.nodes[at].a {
		n := &v.nodes[at]
		last := n
		if n.terms > 1 {
			last = &v.nodes[n.b]
		}
		known = last.terms == 1 && last.leaf.rank == n.terms-1
		ok = !known || n.terms == 1
	}
	v.ordered[id] = known
	return known
}

// terms returns the leaves of value id, sorted, at most limit of them.
func (v *values) terms(id int32, limit int) []leaf {
	out := v.collect(nil, id, limit)
	slices.SortFunc(out, compareLeaf)
	return out
}

// collect appends the leaves of value id, until there are limit of them.
func (v *values) collect(out []leaf, id int32, limit int) []leaf {
	stack := append(v.stack[:0], imageOf{id, 0})
	defer func() { v.stack = stack }()
	for len(stack) > 0 && len(out) < limit {
		top := stack[len(stack)-1]
		n := &v.nodes[top.base]
		stack = stack[:len(stack)-1]
		switch {
		case n.image.frame != 0:
			stack = append(stack, imageOf{n.image.base, v.quotient.Mul(top.frame, n.image.frame)})
		case n.terms == 1:
			out = append(out, v.renamed(n.leaf, top.frame))
		case n.terms > 1:
			stack = append(stack, imageOf{n.a, top.frame}, imageOf{n.b, top.frame})
		}
	}
	return out
}

func compareLeaf(a, b leaf) int {
	return int(cmp.Or(a.launch-b.launch, a.rank-b.rank, a.chunk-b.chunk))
}

// describe returns a description of the value, for a launch.
func (v *values) describe(id int32, launch int, p *plan.Plan) string {
	n := &v.nodes[id]
	if n.terms == 0 {
		return "nothing defined"
	}
	s := ""
	if n.terms > 1 {
		s = cmp.Or(string(n.op), "reduction") + " of "
	}
	var list []string
	for _, l := range v.terms(id, mostListed+1) {
		text := fmt.Sprintf("rank %d's %s", l.rank, p.ChunkName(int(l.chunk)))
		if int(l.launch) != launch {
			text += fmt.Sprintf(" of launch %d", l.launch+1)
		}
		list = append(list, text)
	}
	return s + listed(list, int(n.terms))
}

const mostListed = 8 // terms

// listed joins the first terms of n.
func listed(list []string, n int) string {
	if n > mostListed {
		list = append(list[:mostListed], fmt.Sprintf("… (%d in all)", n))
	}
	return strings.Join(list, ", ")
}
