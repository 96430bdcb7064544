package gpu_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// The memory of one rank of a communicator, in words: where small and large operations read the host's data, and where
// they write. Small operations may also read what others have written.
const (
	orderSmall = 64 << 10
	orderLarge = 1<<20 + 1024
)

// orderParts are the parts: where small operations read and write, then where large ones do.
var orderParts = [4]span{{0, orderSmall}, {orderSmall, 2 * orderSmall}, {2 * orderSmall, 2*orderSmall + orderLarge},
	{2*orderSmall + orderLarge, orderWords}}

const orderWords = 2*orderSmall + 2*orderLarge

// span is words of a memory.
type span struct{ from, to int }

// orderOp is an operation on a communicator's memory: it reads words at src, on every rank, and writes words at dst.
// count is the count of the request, in 32-bit words.
type orderOp struct {
	comm     int
	coll     collective.Collective // Send means a message to the next rank and a message from the previous rank
	src, dst int
	count    int
	root     int
}

func (o orderOp) String() string {
	return fmt.Sprintf("communicator %d: %v of %d words from %d to %d, root %d", o.comm, o.coll, o.count, o.src, o.dst,
		o.root)
}

// reads and writes return the number of words.
func (o *orderOp) reads(n int) int {
	if o.coll == collective.ReduceScatter {
		return n * o.count
	}
	return o.count
}

func (o *orderOp) writes(n int) int {
	if o.coll == collective.AllGather {
		return n * o.count
	}
	return o.count
}

// randomOp chooses sizes for all protocols, mostly small ones. Large operations have at most large words.
func randomOp(r *rand.Rand, n, comm, large int) orderOp {
	colls := []collective.Collective{collective.AllReduce, collective.AllReduce, collective.AllGather,
		collective.ReduceScatter,
		collective.Broadcast, collective.Send}
	o := orderOp{comm: comm, coll: colls[r.IntN(len(colls))], root: r.IntN(n)}
	most := 512
	switch k := r.IntN(1000); {
	case k < 1:
		most = 1 << 20
	case k < 5:
		most = 256 << 10
	case k < 150:
		most = 16 << 10
	}
	most = min(most, large)
	if o.coll == collective.AllGather || o.coll == collective.ReduceScatter {
		most = max(2, most/n)
	}
	o.count = 2 + r.IntN(most-1)
	if r.IntN(4) > 0 {
		o.count &^= 1 // multiples of 8 bytes
	}
	size := max(o.reads(n), o.writes(n))
	from, to, slack := orderParts[0], orderParts[1], orderSmall-size
	if size > 16<<10 {
		from, to, slack = orderParts[2], orderParts[3], min(1024, orderLarge-size)
	}
	o.src, o.dst = from.from+r.IntN(slack+1)&^1, to.from+r.IntN(slack+1)&^3
	if size <= 16<<10 && r.IntN(4) == 0 { // the output of another operation
		if at := to.from + r.IntN(slack+1)&^1; at+o.reads(n) <= o.dst || o.dst+o.writes(n) <= at {
			o.src = at
		}
	}
	return o
}

// run executes the operation on the memories of all ranks.
func (o *orderOp) run(mem [][]uint32) {
	n := len(mem)
	switch o.coll {
	case collective.AllReduce, collective.ReduceScatter:
		for i := range o.reads(n) {
			sum := uint32(0)
			for r := range n {
				sum += mem[r][o.src+i]
			}
			for r := range n {
				if o.coll == collective.AllReduce {
					mem[r][o.dst+i] = sum
				} else if i/o.count == r {
					mem[r][o.dst+i%o.count] = sum
				}
			}
		}
	case collective.AllGather:
		for r := range n {
			for from := range n {
				copy(mem[r][o.dst+from*o.count:], mem[from][o.src:o.src+o.count])
			}
		}
	case collective.Broadcast:
		for r := range n {
			copy(mem[r][o.dst:], mem[o.root][o.src:o.src+o.count])
		}
	case collective.Send:
		for r := range n {
			copy(mem[(r+1)%n][o.dst:], mem[r][o.src:o.src+o.count])
		}
	}
}

// calls returns the operation's calls, for a rank with its memory at p.
func (o *orderOp) calls(c *goccl.Comm, p device.Ptr, s device.Stream) []goccl.Call {
	src, dst, n := p.Add(4*int64(o.src)), p.Add(4*int64(o.dst)), c.WorldSize()
	r := collective.Request{Collective: o.coll, Send: src, Recv: dst, Count: int64(o.count), Type: datatype.Uint32,
		Root: o.root, Stream: s}
	if o.coll != collective.Send {
		return []goccl.Call{{Comm: c, Request: r}}
	}
	r.Peer, r.Recv = (c.Rank()+1)%n, 0
	back := r
	back.Collective, back.Peer, back.Send, back.Recv = collective.Recv, (c.Rank()+n-1)%n, 0, dst
	return []goccl.Call{{Comm: c, Request: r}, {Comm: c, Request: back}}
}
