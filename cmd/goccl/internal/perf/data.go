package perf

import (
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
)

// period is the length in elements of the random block that a rank's input repeats. It is prime, so that two offsets
// that an algorithm computes from counts, ranks and chunk sizes do not see the same values by accident.
const period = 65521

// guard is the number of bytes behind an output that are poisoned and must not change; poison is their value.
const (
	guard  = 512
	poison = 0xA5
)

// scalarOf is the factor of mulsum.
const scalarOf = 2

// inputs are the blocks of all ranks for one check, and the block of their reduction.
type inputs struct {
	typ     datatype.Type
	op      datatype.Op
	n       int
	block   int64 // elements in a block: period, or fewer when the buffers are shorter
	ranks   [][]byte
	reduced []byte
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// palette lists the values that rank's input may take. The reduction of one value of each rank is exact in t, in any
// order.
func palette(t datatype.Type, op datatype.Op, n, rank int) []float64 {
	limit := exact(t)
	// An average of integers rounds negative sums in different ways, so its values stay positive.
	signed := isSigned(t) && (op != datatype.Avg || isFloat(t))
	var top int64
	switch op {
	case datatype.Prod:
		// Powers of two and signs: the narrowest type holds eight doublings.
		v := []float64{1}
		if signed {
			v = append(v, -1)
		}
		if rank < 6 && t != datatype.Float8E4M3 || rank < 4 {
			v = append(v, 2)
		}
		return v
	case datatype.Max, datatype.Min:
		top = min(limit, 250)
	case datatype.PreMulSum:
		top = min(limit/int64(n)/scalarOf, 250)
		if top == 0 && int64(rank) < limit/scalarOf {
			top = 1
		}
	default:
		top = min(limit/int64(n), 250)
		if top == 0 && int64(rank) < limit {
			top = 1
		}
	}
	v := []float64{0}
	for i := int64(1); i <= top; i++ {
		v = append(v, float64(i))
		if signed {
			v = append(v, -float64(i))
		}
	}
	return v
}

// newInputs draws the blocks of n ranks, and reduces them if reduces is true. elements is the length of the longest
// buffer.
func newInputs(t datatype.Type, op datatype.Op, n int, elements int64, reduces bool, seed uint64) (*inputs, error) {
	in := &inputs{typ: t, op: op, n: n, block: min(period, max(elements, 1)), ranks: make([][]byte, n)}
	ts := t.Size()
	var values []float64
	var encoded []byte
	for r := range in.ranks {
		// Palettes of different ranks are equal or have different lengths.
		if p := palette(t, op, n, r); len(p) != len(values) {
			values, encoded = p, make([]byte, int64(len(p))*ts)
			for i, v := range values {
				encode(encoded[int64(i)*ts:], t, v)
			}
		}
		in.ranks[r] = make([]byte, in.block*ts)
		key := mix(seed ^ mix(uint64(r)+1))
		for i := range in.block {
			pick := int64(mix(key+uint64(i)) % uint64(len(values)))
			copy(in.ranks[r][i*ts:(i+1)*ts], encoded[pick*ts:])
		}
	}
	if !reduces {
		return in, nil
	}
	in.reduced = make([]byte, in.block*ts)
	return in, hostreduce.Reduce(in.reduced, in.ranks, t, op, hostreduce.ScalarOf(t, scalarOf), n)
}

// source returns the block that a segment repeats.
func (in *inputs) source(s segment) []byte {
	if s.from < 0 {
		return in.reduced
	}
	return in.ranks[s.from]
}

// compare counts the elements of got that differ from the segment; got starts at element first of the segment. A
// library may divide before or after the sum of an average, which rounds the term of each rank once.
func (in *inputs) compare(got []byte, s segment, first int64) (wrong int64) {
	ts, how := in.typ.Size(), datatype.Max // which has one right result
	if in.op == datatype.Avg && in.reduced != nil {
		how = datatype.Avg
	}
	block := in.source(s)
	at := (s.src + first) % in.block
	for len(got) > 0 {
		want := block[at*ts:]
		k := min(len(want), len(got))
		n, _ := hostreduce.Check(got[:k], want[:k], in.typ, how, in.n)
		wrong += n
		got, at = got[k:], 0
	}
	return wrong
}

func isFloat(t datatype.Type) bool { return hostreduce.Unit(t) > 0 }

func isSigned(t datatype.Type) bool {
	return t != datatype.Uint8 && t != datatype.Uint32 && t != datatype.Uint64
}

// encode writes v, rounded to nearest even for floating types, truncated for integers, as one element of t at the start
// of b.
func encode(b []byte, t datatype.Type, v float64) {
	s := hostreduce.ScalarOf(t, v)
	copy(b, s[:t.Size()])
}

// exact is the largest n, or 2³⁰, such that every integer in 0..n is an element of t.
func exact(t datatype.Type) int64 {
	switch {
	case isFloat(t):
		return int64(min(1/hostreduce.Unit(t), 1<<30))
	case t == datatype.Int8:
		return 127
	case t == datatype.Uint8:
		return 255
	}
	return 1 << 30
}
