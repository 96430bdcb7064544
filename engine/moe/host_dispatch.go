package moe

import (
	"fmt"
	"math"
	"slices"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/hostreduce"
)

// view is what an operation reads of a handle.
type view struct {
	handle
	memory device.Ptr
	tokens []int32 // by source
	base   []int32 // by source: the first of its rows
	routes []route
	ranges []int64
}

func (t *task) view(h *Handle) *view {
	l, n := handle{h.Shape, t.b.size, t.b.places(&h.Shape)}, t.b.size
	v := &view{handle: l, memory: h.Memory, tokens: at[int32](h.Memory, offTokens, n), base: make([]int32, n+1),
		routes: at[route](h.Memory, l.routes(), h.Tokens), ranges: at[int64](h.Memory, l.ranges(), l.local()*n)}
	for s, c := range at[int32](h.Memory, offCounts, n) {
		v.base[s+1] = v.base[s] + c
	}
	return v
}

// sentRow is where a rank has the elements of token i of this rank, in the layout ZeroCopy.
func (t *task) sentRow(v *view, kind, p int, r row, i int) []byte {
	place := int64(at[int32](v.memory, v.sent()+int64(p*v.handle.tokens+i)*4, 1)[0])
	if t.b.rank > 0 {
		place += int64(at[int32](v.memory, offPrefix+int64((t.b.rank-1)*t.b.size+p)*4, 1)[0])
	}
	return device.Bytes(t.b.memory.Ptr[p].Add(t.b.arena.rows(kind, 0)+place*int64(r.data)), int64(r.data))
}

// places returns the expert slots of token i of a source.
func (v *view) places(source, i int) []int32 {
	n := v.entries()
	return at[int32](v.memory, v.handle.places()+int64((source*v.handle.tokens+i)*n)*4, n)
}

func (e *hostEngine) dispatch(seq uint64, args *DispatchArgs) error {
	a := *args
	return e.launch("moe_dispatch", seq, a.Stream, func(t *task) error { return t.dispatch(&a) })
}

// dispatch:
//
//  1. begin    wait until the peers have ended the dispatch before
//  2. send     each row to the peers of its token; after a piece, its flag. Layout ZeroCopy: its elements to where the
//     peers' callers get them, also the own ones
//  3. receive  the rows of each source, piece by piece; the own ones directly
//  4. end      publish the number, in the layout ZeroCopy when the next dispatch begins
func (t *task) dispatch(a *DispatchArgs) error {
	n, err := t.begin(kindDispatch, &a.Handle)
	if err != nil {
		return err
	}
	b, v := t.b, t.view(&a.Handle)
	if total := int(v.base[b.size]); a.Layout != Experts && total > a.RecvRows {
		return t.error(-1, fmt.Errorf("%w: %d rows come, and RecvX has room for %d", collective.ErrInvalidArgument, total,
			a.RecvRows))
	}
	r := a.row(a.sent(), a.Lists)
	rows := make([]byte, r.bytes())
	for i := range a.Tokens {
		if v.routes[i].mask != 0 {
			t.load(a, r, i, rows)
		}
		for p := range t.peers() {
			switch {
			case v.routes[i].mask>>p&1 == 0:
			case a.Layout == ZeroCopy:
				copy(t.sentRow(v, kindDispatch, p, r, i), rows)
				copy(t.rest(p, b.rank, r, i), rows[r.data:])
			case p != b.rank:
				copy(t.slot(p, kindDispatch, b.rank, r, i), rows)
			}
		}
		t.flag(kindDispatch, i, a.Tokens, n)
	}
	for k := range b.size {
		s := (b.rank + b.size - k) % b.size
		for i := range int(v.tokens[s]) {
			if s != b.rank && i%PieceTokens == 0 {
				if err := t.piece(kindDispatch, s, i, n); err != nil {
					return err
				}
			}
			places := v.places(s, i)
			if slices.Max(places) < 0 { // the token does not come here
				continue
			}
			from := t.slot(b.rank, kindDispatch, s, r, i)
			if s == b.rank {
				t.load(a, r, i, rows)
				from = rows
			}
			elements, rest := from[:r.data], from[r.data:]
			if a.Layout == ZeroCopy {
				elements, rest = nil, t.rest(b.rank, s, r, i)
			}
			if err := t.deliver(a, v, r, s, i, places, elements, rest); err != nil {
				return err
			}
		}
	}
	if a.Lists {
		t.pad(a, int(v.base[b.size]))
	}
	if t.owed = a.Layout == ZeroCopy; !t.owed {
		t.end(kindDispatch, n)
	}
	return nil
}

// slot is the place of a row in a rank's arena.
func (t *task) slot(rank, kind, source int, r row, i int) []byte {
	return device.Bytes(t.b.memory.Ptr[rank].Add(t.b.arena.rows(kind, source)+int64(i)*r.slot()), int64(r.bytes()))
}

// rest is what a source's row has behind its elements, in the layout ZeroCopy.
func (t *task) rest(rank, source int, r row, i int) []byte {
	at := t.b.arena.rest(r, source) + int64(i)*(r.slot()-int64(r.data))
	return device.Bytes(t.b.memory.Ptr[rank].Add(at), int64(r.bytes()-r.data))
}

// flag publishes to all peers that a piece is there, once token i is the last of it.
func (t *task) flag(kind, i, tokens int, n uint32) {
	if (i+1)%PieceTokens != 0 && i+1 != tokens {
		return
	}
	for p := range t.peers() {
		t.word(p, t.b.arena.flags(kind, t.b.rank)+int64(i/PieceTokens)*4).Store(n)
		t.door(p).Wake()
	}
}

// piece waits for the piece of token i.
func (t *task) piece(kind, source, i int, n uint32) error {
	w := t.word(t.b.rank, t.b.arena.flags(kind, source)+int64(i/PieceTokens)*4)
	return t.await(source, "rows", func() bool { return w.Load() == n })
}

// load makes the row of one of the own tokens.
func (t *task) load(a *DispatchArgs, r row, i int, out []byte) {
	x := device.Bytes(a.X.Add(int64(i)*int64(a.Hidden)*a.Type.Size()), int64(a.Hidden)*a.Type.Size())
	switch {
	case a.Quantize:
		quantize(at[uint16](a.X, int64(i*a.Hidden)*2, a.Hidden), out[:r.data], floats(out[r.data:], scalesOf(a.Hidden)),
			a.PowerOfTwo)
	default:
		copy(out, x)
		if r.scales > 0 {
			n := 4 * scalesOf(a.Hidden)
			copy(out[r.data:], device.Bytes(a.Scales.Add(int64(i*n)), int64(n)))
		}
	}
	if r.lists == 0 {
		return
	}
	lists := floats(out[r.data+r.scales:], 2*a.TopK)
	experts := at[int64](a.Index, int64(i*a.TopK)*8, a.TopK)
	for k := range a.TopK {
		lists[k], lists[a.TopK+k] = math.Float32frombits(uint32(int32(t.expert(&a.Shape, experts[k])))), 0
		if a.Weights != 0 {
			lists[a.TopK+k] = at[float32](a.Weights, int64(i*a.TopK+k)*4, 1)[0]
		}
	}
}

// quantize: the scale of a group is its largest magnitude / 448, and an element is multiplied by the inverse.
func quantize(x []uint16, out []byte, scales []float32, powerOfTwo bool) {
	for g := range scales {
		most := float32(1e-4)
		for _, v := range x[g*ScaleElements:][:ScaleElements] {
			if f := hostreduce.Float32(v &^ 0x8000); f > most { // not for NaN
				most = f
			}
		}
		inverse := 448 / most
		scales[g] = most / 448
		if powerOfTwo {
			scales[g], inverse = powerAbove(scales[g])
		}
		for i, v := range x[g*ScaleElements:][:ScaleElements] {
			out[g*ScaleElements+i] = hostreduce.E4M3(hostreduce.Float32(v) * inverse)
		}
	}
}

// powerAbove is the least power of two that is not below f, and its inverse.
func powerAbove(f float32) (power, inverse float32) {
	e := (math.Float32bits(f) + 0x7fffff) >> 23
	return math.Float32frombits(e << 23), math.Float32frombits((254 - e) << 23)
}

// deliver copies a row to where the caller gets it.
func (t *task) deliver(a *DispatchArgs, v *view, r row, source, i int, places []int32, elements, rest []byte) error {
	for _, p := range places {
		if p < 0 {
			continue
		}
		rowAt := int64(v.base[source] + p)
		if a.Layout == Experts {
			e := int(p >> placeBits)
			in := v.ranges[e*t.b.size+source]>>32 + int64(p&(1<<placeBits-1))
			if in >= int64(a.RecvRows) {
				return t.error(-1, fmt.Errorf("%w: expert %d of this rank gets more rows than RecvRows, %d",
					collective.ErrInvalidArgument, e, a.RecvRows))
			}
			rowAt = int64(e)*int64(a.RecvRows) + in
		}
		copy(device.Bytes(a.RecvX.Add(rowAt*int64(r.data)), int64(r.data)), elements)
		if r.scales > 0 {
			n := int64(4 * scalesOf(a.Hidden))
			copy(device.Bytes(a.RecvScales.Add(rowAt*n), n), rest)
		}
		if a.RecvSource != 0 {
			at[int32](a.RecvSource, rowAt*4, 1)[0] = int32(i)
		}
		if r.lists > 0 {
			t.lists(a, rowAt, floats(rest[r.scales:], 2*a.TopK))
		}
	}
	return nil
}

// lists writes the experts of a row, numbered from this rank's first, and their weights.
func (t *task) lists(a *DispatchArgs, rowAt int64, lists []float32) {
	local := a.local(t.b.size)
	for k := range a.TopK {
		e, w := int64(int32(math.Float32bits(lists[k])))-int64(t.b.rank*local), lists[a.TopK+k]
		if e < 0 || e >= int64(local) {
			e, w = -1, 0
		}
		at[int64](a.RecvIndex, (rowAt*int64(a.TopK)+int64(k))*8, 1)[0] = e
		if a.RecvWeights != 0 {
			at[float32](a.RecvWeights, (rowAt*int64(a.TopK)+int64(k))*4, 1)[0] = w
		}
	}
}

// pad writes empty lists behind the last row.
func (t *task) pad(a *DispatchArgs, rows int) {
	for i := rows * a.TopK; i < a.RecvRows*a.TopK; i++ {
		at[int64](a.RecvIndex, int64(i)*8, 1)[0] = -1
		if a.RecvWeights != 0 {
			at[float32](a.RecvWeights, int64(i)*4, 1)[0] = 0
		}
	}
}
