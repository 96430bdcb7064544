package commtest

import (
	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// Item is one operation of a group on one of its communicators: a collective, or a message from one rank to another.
type Item struct {
	Comm     int
	Message  bool
	Coll     collective.Collective
	Count    int64
	Root     int
	Src, Dst int // ranks of the communicator
}

// Collectives lists the collectives that an Item may be.
var Collectives = []collective.Collective{collective.AllReduce, collective.AllGather, collective.ReduceScatter,
	collective.AllToAll, collective.Broadcast,
	collective.Reduce, collective.Gather, collective.Scatter, collective.Barrier}

// value returns element i of the input of rank r of the job to item k.
func value(r, k int, i int64) byte { return byte(r*31 + k*7 + int(i)*3 + 1) }

// Work is one rank's part of an item: its request, and the expected contents of Recv.
type Work struct {
	Call goccl.Call
	Recv device.Ptr
	Want []byte
}

// Arrange makes the calls of one rank. world maps the ranks of each communicator to ranks of the job.
func Arrange(comms []*goccl.Comm, world [][]int, items []Item, arena func(n int64) device.Ptr,
	stream func() device.Stream) (out []Work, err error) {
	for k, it := range items {
		if it.Comm < 0 { // this rank is not in it
			continue
		}
		c, members := comms[it.Comm], world[it.Comm]
		me, n := c.Rank(), int64(c.WorldSize())
		if it.Message && me != it.Src && me != it.Dst {
			continue
		}
		input := func(r int, elements int64) []byte {
			b := make([]byte, elements)
			for i := range b {
				b[i] = value(members[r], k, int64(i))
			}
			return b
		}
		add := func(coll collective.Collective, send int64, want []byte, peer int) error {
			req := collective.Request{Collective: coll, Count: it.Count, Type: datatype.Uint8, Op: datatype.Sum, Root: it.Root,
				Peer: peer, Stream: stream(),
				Send: arena(send), Recv: arena(int64(len(want)))}
			if send > 0 {
				if err := c.Device().CopyIn(req.Send, input(me, send)); err != nil {
					return err
				}
			}
			out = append(out, Work{goccl.Call{Comm: c, Request: req}, req.Recv, want})
			return nil
		}
		sum := func(from, count int64) []byte {
			b := make([]byte, count)
			for r := range members {
				for i, v := range input(r, from+count)[from:] {
					b[i] += v
				}
			}
			return b
		}
		gathered := func(part func(r int) []byte) (b []byte) {
			for r := range members {
				b = append(b, part(r)...)
			}
			return b
		}
		if it.Message {
			if me == it.Src {
				err = add(collective.Send, it.Count, nil, it.Dst)
			}
			if me == it.Dst && err == nil {
				err = add(collective.Recv, 0, input(it.Src, it.Count), it.Src)
			}
		} else {
			atRoot := func(b []byte) []byte {
				if me == it.Root {
					return b
				}
				return nil
			}
			send, want := it.Count, []byte(nil)
			switch it.Coll {
			case collective.AllReduce:
				want = sum(0, it.Count)
			case collective.Reduce:
				want = atRoot(sum(0, it.Count))
			case collective.ReduceScatter:
				send, want = it.Count*n, sum(int64(me)*it.Count, it.Count)
			case collective.AllGather:
				want = gathered(func(r int) []byte { return input(r, it.Count) })
			case collective.Gather:
				want = atRoot(gathered(func(r int) []byte { return input(r, it.Count) }))
			case collective.AllToAll:
				send, want = it.Count*n,
					gathered(func(r int) []byte { return input(r, it.Count*n)[int64(me)*it.Count:][:it.Count] })
			case collective.Scatter:
				send, want = it.Count*n, input(it.Root, it.Count*n)[int64(me)*it.Count:][:it.Count]
			case collective.Broadcast:
				want = input(it.Root, it.Count)
			case collective.Barrier:
				send = 0
			}
			err = add(it.Coll, send, want, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ArenaBytes is enough for the memory of a group of Items.
const ArenaBytes = 8 << 20
