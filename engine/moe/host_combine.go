package moe

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/goccl/goccl/internal/hostreduce"
)

// floats are n float32 in b, which is aligned to 4 bytes.
func floats(b []byte, n int) []float32 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b[:4*n]))), n)
}

func (e *hostEngine) combine(seq uint64, args *CombineArgs) error {
	a := *args
	return e.launch("moe_combine", seq, a.Stream, func(t *task) error { return t.combine(&a) })
}

// combine:
//
//  1. begin    wait until the peers have ended the combine before
//  2. weights  layout Experts: send the weights of this rank's tokens to the ranks of their experts
//  3. return   to each rank, in the order of its tokens, a row for each that came; after a piece, its flag
//  4. add      for each own token: the bias, then the ranks' rows, in the order of the token's list
//  5. end      publish the number
//
// In the layout ZeroCopy nothing is sent: step 3 waits until the peers' results are there, step 4 reads them there, and
// step 5 waits until the peers have read the own ones.
func (t *task) combine(a *CombineArgs) error {
	n, err := t.begin(kindCombine, &a.Handle)
	if err != nil {
		return err
	}
	b, v, r := t.b, t.view(&a.Handle), a.returned()
	if a.Layout == Experts {
		for p := range t.peers() {
			t.sendWeights(a, p, n)
		}
	}
	if a.Layout == ZeroCopy {
		return t.pull(a, v, r, n)
	}
	for s := range t.peers() {
		for i := range int(v.tokens[s]) {
			if places := v.places(s, i); slices.Max(places) >= 0 {
				out := t.slot(s, kindCombine, b.rank, r, i)
				if err := t.giveBack(a, v, r, s, i, n, places, out); err != nil {
					return err
				}
			}
			if (i+1)%PieceTokens == 0 || i+1 == int(v.tokens[s]) {
				t.word(s, b.arena.flags(kindCombine, b.rank)+int64(i/PieceTokens)*4).Store(n)
				t.door(s).Wake()
			}
		}
	}
	for i := range a.Tokens {
		if i%PieceTokens == 0 {
			for p := range t.peers() {
				if err := t.piece(kindCombine, p, i, n); err != nil {
					return err
				}
			}
		}
		t.add(a, v, r, i)
	}
	t.end(kindCombine, n)
	return nil
}

// pull is steps 3 to 5 in the layout ZeroCopy.
func (t *task) pull(a *CombineArgs, v *view, r row, n uint32) error {
	ended, started := t.b.arena.ended(kindCombine, 0), t.b.arena.ended(kindCombine, 0)+4
	t.tell(started+int64(t.b.rank)*64, n)
	if err := t.awaitPeers(started, n, "results"); err != nil {
		return err
	}
	for i := range a.Tokens {
		t.add(a, v, r, i)
	}
	t.end(kindCombine, n)
	return t.awaitPeers(ended, n, "the end of its combine")
}

// sendWeights is step 2: words of a value below and the number of the combine above, which is stored last.
func (t *task) sendWeights(a *CombineArgs, p int, n uint32) {
	to := t.b.arena.weights(t.b.rank)
	for i, w := range at[uint32](a.Weights, 0, a.Tokens*a.TopK) {
		t.word(p, to+int64(i)*wordBytes).Store(w)
		t.word(p, to+int64(i)*wordBytes+4).Store(n)
	}
	t.door(p).Wake()
}

// weight waits for a weight of a source's token.
func (t *task) weight(source, i, k, topK int, n uint32) (float32, error) {
	o := t.b.arena.weights(source) + int64(i*topK+k)*wordBytes
	w := t.word(t.b.rank, o+4)
	if err := t.await(source, "weights", func() bool { return w.Load() == n }); err != nil {
		return 0, err
	}
	return at[float32](t.b.memory.Ptr[t.b.rank], o, 1)[0], nil
}

// giveBack makes the row that returns for a token: the caller's, or the weighted sum over the experts.
func (t *task) giveBack(a *CombineArgs, v *view, r row, source, i int, n uint32, places []int32, out []byte) error {
	if a.Layout != Experts {
		rowAt := int64(v.base[source] + places[0])
		copy(out, at[byte](a.X, rowAt*int64(r.data), r.data))
		if r.lists > 0 {
			copy(floats(out[r.data:], a.TopK), at[float32](a.Weights, rowAt*int64(a.TopK)*4, a.TopK))
		}
		return nil
	}
	sums := t.clear(a.Hidden)
	for k, p := range places {
		if p < 0 {
			continue
		}
		w, err := t.weight(source, i, k, a.TopK, n)
		if err != nil {
			return err
		}
		e := int(p >> placeBits)
		in := v.ranges[e*t.b.size+source]>>32 + int64(p&(1<<placeBits-1))
		x := at[uint16](a.X, (int64(e)*int64(a.Rows)+in)*int64(r.data), a.Hidden)
		for j := range sums {
			sums[j] += float32(w * hostreduce.Float32(x[j]))
		}
	}
	narrow(out, sums)
	return nil
}

// clear returns n sums of 0.
func (e *hostEngine) clear(n int) []float32 {
	if len(e.sums) < n {
		e.sums = make([]float32, n)
	}
	clear(e.sums[:n])
	return e.sums[:n]
}

func narrow(out []byte, sums []float32) {
	for j, f := range sums {
		binary.LittleEndian.PutUint16(out[2*j:], hostreduce.Bfloat16(f))
	}
}

// add is step 4 for token i.
func (t *task) add(a *CombineArgs, v *view, r row, i int) {
	sums := t.clear(a.Hidden)
	for _, bias := range a.Bias {
		if bias != 0 {
			for j, x := range at[uint16](bias, int64(i*r.data), a.Hidden) {
				sums[j] += hostreduce.Float32(x)
			}
		}
	}
	var weights [MaxTopK]float32
	for order, mask := v.routes[i].order, v.routes[i].mask; mask != 0; order, mask = order>>4, mask&(mask-1) {
		from := t.slot(t.b.rank, kindCombine, int(order&15), r, i)
		if a.Layout == ZeroCopy {
			from = t.sentRow(v, kindCombine, int(order&15), r, i)
		}
		for j := range sums {
			sums[j] += hostreduce.Float32(binary.LittleEndian.Uint16(from[2*j:]))
		}
		for k, w := range floats(from[r.data:], a.lists()) {
			weights[k] += w
		}
	}
	narrow(at[byte](a.Out, int64(i*r.data), r.data), sums)
	if a.OutWeights != 0 {
		copy(at[float32](a.OutWeights, int64(i*a.TopK)*4, a.TopK), weights[:a.TopK])
	}
}
