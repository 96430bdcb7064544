package planrun

import (
	"sync"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/plan"
)

// pieceElements is how many elements are compared at a time.
const pieceElements = 16 << 10

// inputs holds the inputs of all ranks: hostreduce.Fill's data. The data repeat, so only a period plus a piece is kept
// for each rank, whatever the size.
type inputs struct {
	t     datatype.Type
	ranks [][]byte
}

func newInputs(p *plan.Plan, l *plan.Layout, c Case) *inputs {
	in := &inputs{t: c.Type, ranks: make([][]byte, len(p.GPUs))}
	largest := int64(0)
	for r := range in.ranks {
		largest = max(largest, l.Size(r, plan.Input))
	}
	for r := range in.ranks {
		in.ranks[r] = fill(c.Type, c.Seed, r, min(largest, (hostreduce.Period+pieceElements)*c.Type.Size()))
	}
	return in
}

// filled caches data of earlier cases: generating data takes longer than most plans take to run. The data are never
// changed.
var filled struct {
	sync.Mutex
	by map[fillKey][]byte
}

type fillKey struct {
	t    datatype.Type
	seed uint64
	rank int
}

const maxFilled = 64 // entries, each of at most 640 KiB

func fill(t datatype.Type, seed uint64, rank int, n int64) []byte {
	key := fillKey{t, seed, rank}
	filled.Lock()
	b := filled.by[key]
	filled.Unlock()
	if int64(len(b)) >= n {
		return b[:n]
	}
	b = make([]byte, n)
	hostreduce.Fill(b, t, seed, rank)
	filled.Lock()
	defer filled.Unlock()
	if len(filled.by) >= maxFilled || filled.by == nil {
		filled.by = map[fillKey][]byte{}
	}
	filled.by[key] = b
	return b
}

// piece returns how many of n bytes at can return at once.
func (in *inputs) piece(n int64) int64 { return min(n, pieceElements*in.t.Size()) }

// at returns n bytes, at most a piece, of a rank's input from byte off, which must be the start of an element.
func (in *inputs) at(rank int, off, n int64) []byte {
	off %= hostreduce.Period * in.t.Size()
	return in.ranks[rank][off : off+n]
}

// whole returns the first n bytes of a rank's input.
func (in *inputs) whole(rank int, n int64) []byte {
	out := make([]byte, n)
	for off := int64(0); off < n; {
		off += int64(copy(out[off:], in.at(rank, off, in.piece(n-off))))
	}
	return out
}
