package contract_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/test/commtest"
)

// What rank s of a test sends to rank d, as elements of 4 bytes.
func sentElement(s, d, i int) uint32 { return uint32(s*1000003 + d*10007 + i*7 + 1) }

const checkedCount = 50

// moved are the operations whose data is compared, with the elements that rank r of n sends and receives.
var moved = map[collective.Collective]struct {
	send, recv func(r, n, i int) uint32
}{
	collective.AllReduce: {func(r, _, i int) uint32 { return sentElement(r, 0, i) }, func(_, n, i int) (sum uint32) {
		for s := range n {
			sum += sentElement(s, 0, i)
		}
		return sum
	}},
	collective.Broadcast: {func(r, _, i int) uint32 { return sentElement(r, 0, i) },
		func(_, _, i int) uint32 { return sentElement(1, 0, i) }},
	collective.AllGather: {func(r, _, i int) uint32 { return sentElement(r, 0, i) }, fromEach(func(int) int { return 0 })},
	collective.Gather:    {func(r, _, i int) uint32 { return sentElement(r, 0, i) }, fromEach(func(int) int { return 0 })},
	collective.Scatter:   {toEach, func(r, _, i int) uint32 { return sentElement(1, r, i) }},
	collective.AllToAll:  {toEach, fromEach(func(r int) int { return r })},
	collective.AllToAllV: {toEach, fromEach(func(r int) int { return r })},
}

func toEach(r, _, i int) uint32 { return sentElement(r, i/checkedCount, i%checkedCount) }

func fromEach(as func(r int) int) func(r, n, i int) uint32 {
	return func(r, _, i int) uint32 { return sentElement(i/checkedCount, as(r), i%checkedCount) }
}

// oracle is an algorithm that writes the right results, and flips a bit of one rank's now and then.
type oracle struct {
	coll collective.Collective
	rank int
	n    int
	flip func(rank int, result []byte)
}

func (o *oracle) Build(context.Context, collective.Job) (collective.Algorithm, error) {
	return o, nil
}
func (o *oracle) Name() string                       { return "oracle" }
func (o *oracle) Collective() collective.Collective  { return o.coll }
func (o *oracle) MessageRange() (least, most uint64) { return 0, 1 << 40 }
func (o *oracle) Tags() map[string]uint64            { return nil }
func (o *oracle) Constraint() collective.Constraint  { return collective.Constraint{} }
func (o *oracle) BufferMode() collective.BufferMode  { return collective.AnyBuffers }
func (o *oracle) Accepts(*collective.Request) error  { return nil }
func (o *oracle) Abort(error)                        {}
func (o *oracle) Close() error                       { return nil }

func (o *oracle) Run(_ context.Context, _ uint64, r *collective.Request) error {
	_, size := r.Extents(o.rank, o.n)
	recv := r.Recv
	return r.Stream.(*host.Stream).Launch("oracle", 1, func(*host.Block) error {
		if size > 0 {
			b := device.Bytes(recv, size)
			for i := range int(size / 4) {
				binary.LittleEndian.PutUint32(b[4*i:], moved[o.coll].recv(o.rank, o.n, i))
			}
			o.flip(o.rank, b)
		}
		return nil
	})
}

// checkedRequest makes the request of a rank and fills its send buffer.
func checkedRequest(coll collective.Collective, r, n int, mem device.Ptr, s device.Stream) collective.Request {
	q := collective.Request{Collective: coll, Send: mem, Recv: mem.Add(1 << 12), Count: checkedCount,
		Type: datatype.Uint32, Op: datatype.Sum, Root: 1, Stream: s}
	if coll == collective.AllToAllV {
		q.Count = 0
		for p := range n {
			q.SendCounts, q.SendDispls = append(q.SendCounts, checkedCount), append(q.SendDispls, int64(p)*checkedCount)
		}
		q.RecvCounts, q.RecvDispls = q.SendCounts, q.SendDispls
	}
	size, _ := q.Extents(r, n)
	b := device.Bytes(mem, size)
	for i := range int(size / 4) {
		binary.LittleEndian.PutUint32(b[4*i:], moved[coll].send(r, n, i))
	}
	return q
}

func checkedComms(t *testing.T, n int) ([]*goccl.Comm, []device.Ptr, []device.Stream) {
	t.Helper()
	comms := commtest.New(t, n, commtest.Host, func(r int, cfg *goccl.Config) { cfg.CheckData = r == 0 })
	mem, streams := make([]device.Ptr, n), make([]device.Stream, n)
	for r, c := range comms {
		a, err := c.Device().Alloc(1 << 13)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Device().NewStream()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		mem[r], streams[r] = a.Ptr(), s
	}
	return comms, mem, streams
}

// A flipped bit of what any rank receives is an error on every rank, which names a rank that has to do with it. Without
// one the ranks agree.
func TestFlippedBits(t *testing.T) {
	const n, trials = 4, 30
	for coll := range moved {
		t.Run(coll.String(), func(t *testing.T) {
			comms, mem, streams := checkedComms(t, n)
			var victim int
			var bit uint64
			flip := func(rank int, result []byte) {
				if at := bit % uint64(8*len(result)); rank == victim {
					result[at/8] ^= 1 << (at % 8)
				}
			}
			if err := commtest.Each(n, func(r int) error {
				return comms[r].RegisterAlgorithm(t.Context(), &oracle{coll: coll, rank: r, n: n, flip: flip})
			}); err != nil {
				t.Fatal(err)
			}
			for k := range trials {
				victim, bit = rand.IntN(n), rand.Uint64()
				if coll == collective.Gather {
					victim = 1 // nobody else receives
				}
				if k%5 == 0 {
					victim = -1
				}
				if err := commtest.Each(n, func(r int) error {
					err := comms[r].Submit(checkedRequest(coll, r, n, mem[r], streams[r]))
					var e *goccl.Error
					switch {
					case victim < 0 && err != nil:
						return err
					case victim >= 0 && (!errors.Is(err, goccl.ErrCorrupt) || !errors.As(err, &e)):
						return fmt.Errorf("a flip at rank %d: %w", victim, err)
					case victim >= 0 && coll == collective.AllReduce && e.Peer != victim,
						victim >= 0 && r != victim && e.Peer != victim:
						return fmt.Errorf("a flip at rank %d: it names %d: %w", victim, e.Peer, err)
					}
					return comms[r].AsyncError()
				}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// The engine's own operations agree, in a group, in place and out of place; and reductions are left alone.
func TestCheckedDataAgrees(t *testing.T) {
	const n = 3
	comms, mem, streams := checkedComms(t, n)
	for coll := range moved {
		for range 3 {
			if err := commtest.Each(n, func(r int) error {
				return comms[r].Submit(checkedRequest(coll, r, n, mem[r], streams[r]))
			}); err != nil {
				t.Fatal(coll, err)
			}
		}
	}
	if err := commtest.Each(n, func(r int) error {
		q := collective.Request{Collective: collective.ReduceScatter, Send: mem[r], Recv: mem[r].Add(1 << 12), Count: 7,
			Type: datatype.Uint32, Op: datatype.Max, Stream: streams[r]}
		in := collective.Request{Collective: collective.AllToAll, Send: mem[r], Recv: mem[r], Count: 5,
			Type: datatype.Uint32, Stream: streams[r]}
		next, before := (r+1)%n, (r+n-1)%n
		return comms[r].Submit(q, in,
			collective.Request{Collective: collective.Recv, Recv: mem[r].Add(256), Count: 9, Type: datatype.Int8, Peer: before,
				Stream: streams[r]},
			collective.Request{Collective: collective.Send, Send: mem[r].Add(512), Count: 9, Type: datatype.Int8, Peer: next,
				Stream: streams[r]})
	}); err != nil {
		t.Error(err)
	}
}

// Of two messages into one place the first is damaged: an error on both sides.
func TestADamagedMessage(t *testing.T) {
	comms, mem, streams := checkedComms(t, 2)
	for i := range device.Bytes(mem[0], 64) {
		device.Bytes(mem[0], 64)[i] = byte(i)
	}
	if err := commtest.Each(2, func(r int) error {
		q := [2]collective.Request{}
		for k := range q {
			q[k] = collective.Request{Collective: collective.Send, Send: mem[r].Add(int64(32 * k)), Count: 32,
				Type: datatype.Int8, Peer: 1 - r, Stream: streams[r]}
			if r == 1 {
				q[k].Collective, q[k].Recv, q[k].Send = collective.Recv, mem[r], 0
			}
		}
		err := comms[r].Submit(q[:]...)
		return commtest.Blames(err, goccl.ErrCorrupt, []string{"send", "recv"}[r], 1-r)
	}); err != nil {
		t.Error(err)
	}
}
