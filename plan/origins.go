package plan

import "fmt"

// Origins says where in the author's program a plan comes from, for messages. It is not part of the file.
type Origins struct {
	Parts  int         // the author's chunk k is the chunks k·Parts to k·Parts+Parts-1
	Places []string    // "file:line"
	Ops    [][][]int32 // by rank and thread block: the positions in Places of its ops, bodies behind their pipelines
}

// Line returns the author's line of an op, or "".
func (p *Plan) Line(at Pos) string {
	o := p.Origins
	if o == nil || at.Rank < 0 || at.Rank >= len(o.Ops) || at.Block < 0 || at.Block >= len(o.Ops[at.Rank]) {
		return ""
	}
	if at.Block >= len(p.GPUs[at.Rank].ThreadBlocks) {
		return "" // the caller's work at a hook
	}
	ops := p.GPUs[at.Rank].ThreadBlocks[at.Block].Ops
	if at.Op < 0 || at.Op >= len(ops) {
		return ""
	}
	i := at.Op + 1 + at.Inner
	for k := range ops[:at.Op] {
		i += len(ops[k].Ops)
	}
	if list := o.Ops[at.Rank][at.Block]; i < len(list) && list[i] >= 0 && int(list[i]) < len(o.Places) {
		return o.Places[list[i]]
	}
	return ""
}

// ChunkName returns "chunk 3", in the author's numbers: "chunk 1, part 2 of 2".
func (p *Plan) ChunkName(k int) string {
	if p.Origins == nil || p.Origins.Parts < 2 {
		return fmt.Sprintf("chunk %d", k)
	}
	n := p.Origins.Parts
	return fmt.Sprintf("chunk %d, part %d of %d", k/n, k%n+1, n)
}
