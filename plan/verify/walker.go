package verify

import (
	"fmt"

	"github.com/goccl/goccl/plan"
)

// walker executes a move at one offset. All accesses at one offset are made by one thread.
type walker struct {
	v      *verifier
	b      *blockState
	at     event
	know   *clock
	reads  stamp // of its reads
	writes stamp // of its writes; a transfer writes later than it reads
	self   int32 // the thread block's component, -1 for a caller
	frame  int32 // of a quotient: the element under which the thread block is seen
	inst   int64
	lane   int32 // for a transfer: the thread that pushes it
	port   bool  // the transfer goes over a port channel

	from    movements // proofs of the packets consumed at this offset
	carried *clock    // the clock that these packets carry
	made    movements // proof of the packets written at this offset
}

func (w *walker) move(op plan.ReduceOp, m *plan.Move, part sub) error {
	v := w.v
	var value int32
	w.from, w.made, w.carried = nil, nil, nil
	for i := range m.Src {
		id, carries, err := w.readAt(&m.Src[i], part)
		if err != nil {
			return err
		}
		if i == 0 {
			value = id
		} else {
			value = v.values.combine(value, id, op)
		}
		if carries != nil {
			w.carried = v.forward(w.carried, carries)
		}
	}
	if m.Bound != nil {
		if err := w.bounded(m, part, value); err != nil {
			return err
		}
	}
	for i := range m.Dst {
		if err := w.writeAt(&m.Dst[i], part, value); err != nil {
			return err
		}
	}
	return nil
}

// readAt is the read of a source, of whatever rank.
func (w *walker) readAt(pl *plan.Place, part sub) (int32, *clock, error) {
	q := w.v.quotient
	if q == nil || pl.Rank == w.b.rank {
		return w.read(pl, part)
	}
	x, home, sub := q.visit(w, pl, part)
	id, carries, err := x.read(&home, sub)
	back := q.Frame(pl.Rank)
	return w.v.values.image(back, id), q.clock(back, carries), err
}

// writeAt is the write to a destination, of whatever rank.
func (w *walker) writeAt(pl *plan.Place, part sub, value int32) error {
	q := w.v.quotient
	if q == nil || pl.Rank == w.b.rank {
		return w.write(pl, part, value)
	}
	x, home, sub := q.visit(w, pl, part)
	return x.write(&home, sub, w.v.values.image(x.frame, value))
}

// forward joins the clocks of two packets. Usually they are the same.
func (v *verifier) forward(a, b *clock) *clock {
	if a == nil || a == b {
		return b
	}
	key := [2]*clock{a, b}
	if k, ok := v.joined[key]; ok {
		return k
	}
	k := a.mutable()
	k.learnControl(b)
	v.joined[key] = k
	return k
}

// bounded checks that a move that is limited by a count moves what that count is of. Then a byte that the count lets
// exist takes the same way whatever the counts are.
func (w *walker) bounded(m *plan.Move, part sub, value int32) error {
	b, v := m.Bound, w.v
	want := leaf{int32(w.b.launch), int32(b.Src), int32(b.Dst*v.period + b.Index + int(part.chunk))}
	if got := v.values.terms(value, 2); len(got) == 1 && got[0] == want {
		return nil
	}
	e := v.violation(WrongResult, "", v.event(w.at, "moves", v.where(&m.Src[0], part)))
	e.Detail = fmt.Sprintf("it holds %s; the op is limited by the count of what rank %d sends to rank %d, chunk %d",
		v.values.describe(value, w.b.launch, v.p), b.Src, b.Dst, b.Index+int(part.chunk))
	e.Hint = "name the ranks whose block the op moves, or do not limit it"
	return e
}
