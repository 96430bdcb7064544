package plan

// Bound limits what an op moves by a count that is known only when the plan runs: of the bytes that rank Src sends to
// rank Dst in an all-to-all, those before the count exist. The op's operands are the chunks of that block from chunk
// Index of the block on, wherever they lie.
//
// The counts are a table in device memory, the same on all ranks: row by row, how many bytes each rank sends to each.
// At most a block of the message exists, so the message is the capacity.
type Bound struct {
	Src, Dst int
	Index    int
}

// Counted reports whether ops of the plan are limited by counts.
func (p *Plan) Counted() bool {
	for r := range p.GPUs {
		for _, op := range p.GPUs[r].Ops() {
			if op.Bound != nil {
				return true
			}
		}
	}
	return false
}

// bound checks the limit of an op by a count. Packets are refused: they are awaited whole, so a count would save
// nothing, and a rank that sends none gives its reader no order.
func (v *validator) bound(op *Op, k *OpKind) {
	b := op.Bound
	n := len(v.p.GPUs)
	_, period, _ := v.p.Blocks()
	switch {
	case v.p.Collective != AllToAll:
		v.bad(ErrInvalid, "count", "only an alltoall has counts, of what one rank sends to another")
	case !k.Does.Has(Moves) || !k.Pairs || k.Src.At(0).Packets() || k.Dst.At(0).Packets():
		v.bad(ErrInvalid, "count", "%s moves no plain bytes from one place to another", op.Name)
	case b.Src < 0 || b.Src >= n || b.Dst < 0 || b.Dst >= n:
		v.bad(ErrInvalid, "count", "what rank %d sends to rank %d, of %d ranks", b.Src, b.Dst, n)
	case v.err == nil && (b.Index < 0 || b.Index > period-op.Src[0].Size):
		v.bad(ErrInvalid, "count.index", "chunks %d to %d of a block of %d", b.Index, b.Index+op.Src[0].Size-1, period)
	}
	for i := range op.Src {
		v.need(op.Src[i].Size == op.Src[0].Size, "count", "sources of different sizes")
	}
}
