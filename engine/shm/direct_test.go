package shm_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
)

// memory is a buffer of one rank: shared memory, or memory that other processes cannot map.
type memory struct {
	device.Allocation
	bytes []byte
}

func (e *end) memory(size int64, shareable bool) (m memory, err error) {
	dev := e.dev.(*host.Device)
	if !shareable {
		m.bytes = make([]byte, size)
		m.Allocation, err = dev.Register(m.bytes)
		return m, err
	}
	if m.Allocation, err = dev.Alloc(size); err == nil {
		m.bytes = m.Allocation.(*host.Allocation).Bytes()
	}
	return m, err
}

// layout holds the sizes in bytes of the buffers of a collective with each bytes per count, and the in-place offset.
func layout(c collective.Collective, each int64, n, rank, root int) (send, recv, sendAt, recvAt int64) {
	switch c {
	case collective.AllGather:
		return each, each * int64(n), int64(rank) * each, 0
	case collective.Gather:
		return each, each * int64(n), int64(root) * each, 0
	case collective.ReduceScatter:
		return each * int64(n), each, 0, int64(rank) * each
	case collective.Scatter:
		return each * int64(n), each, 0, int64(root) * each
	case collective.AllToAll:
		return each * int64(n), each * int64(n), 0, 0
	}
	return each, each, 0, 0
}

// expected returns the data that rank must receive, or nil for none, computed from the definitions.
func expected(c collective.Collective, inputs [][]byte, each int64, rank, root int) []byte {
	var out []byte
	n := len(inputs)
	switch c {
	case collective.AllReduce, collective.Reduce:
		if c == collective.Reduce && rank != root {
			return nil
		}
		return sum(inputs, 0, each)
	case collective.ReduceScatter:
		return sum(inputs, int64(rank)*each, each)
	case collective.AllGather, collective.Gather:
		if c == collective.Gather && rank != root {
			return nil
		}
		for p := range n {
			out = append(out, inputs[p]...)
		}
	case collective.AllToAll:
		for p := range n {
			out = append(out, inputs[p][int64(rank)*each:int64(rank+1)*each]...)
		}
	case collective.Scatter:
		return inputs[root][int64(rank)*each : int64(rank+1)*each]
	case collective.Broadcast:
		return inputs[root]
	}
	return out
}

func sum(inputs [][]byte, from, n int64) []byte {
	out := make([]byte, n)
	for i := int64(0); i < n; i += 4 {
		var s uint32
		for _, in := range inputs {
			s += binary.LittleEndian.Uint32(in[from+i:])
		}
		binary.LittleEndian.PutUint32(out[i:], s)
	}
	return out
}

var kinds = []collective.Collective{collective.AllReduce, collective.Reduce, collective.ReduceScatter,
	collective.AllGather, collective.Gather,
	collective.AllToAll,
	collective.Scatter, collective.Broadcast}

// round is one request that all ranks make.
type round struct {
	kind      collective.Collective
	each      int64
	root      int
	inPlace   bool
	shareable []bool // by rank
	inputs    [][]byte
}

func newRound(rng *rand.Rand, n int) round {
	r := round{kind: kinds[rng.IntN(len(kinds))], each: 4 * (1 + rng.Int64N(1<<uint(4+rng.IntN(12)))), root: rng.IntN(n),
		inPlace: rng.IntN(2) == 0}
	if r.kind == collective.AllToAll {
		r.inPlace = r.inPlace && r.each < 1<<12
	}
	for rank := range n {
		r.shareable = append(r.shareable, rng.IntN(20) != 0)
		size, _, _, _ := layout(r.kind, r.each, n, rank, r.root)
		in := make([]byte, size)
		for i := 0; i+8 <= len(in); i += 8 {
			binary.LittleEndian.PutUint64(in[i:], rng.Uint64())
		}
		r.inputs = append(r.inputs, in)
	}
	return r
}

// pool keeps a few buffers of a rank, so that requests use both known and new ones.
type pool struct {
	e    *end
	kept []memory
}

func (p *pool) take(rng *rand.Rand, size int64, shareable bool) (memory, error) {
	if shareable && rng.IntN(4) != 0 {
		for _, m := range p.kept {
			if m.Size() >= size+64 {
				return m, nil
			}
		}
	}
	m, err := p.e.memory(size+64+rng.Int64N(5000), shareable)
	if err == nil {
		p.kept = append(p.kept, m)
	}
	return m, err
}

// trim frees buffers until few are left.
func (p *pool) trim(rng *rand.Rand, most int) error {
	for len(p.kept) > most {
		i := rng.IntN(len(p.kept))
		if err := p.kept[i].Close(); err != nil {
			return err
		}
		p.kept = append(p.kept[:i], p.kept[i+1:]...)
	}
	return nil
}

func (p *pool) run(rng *rand.Rand, r round) error {
	e, n, rank := p.e, p.e.boot.WorldSize(), p.e.boot.Rank()
	sendSize, recvSize, sendAt, recvAt := layout(r.kind, r.each, n, rank, r.root)
	send, err := p.take(rng, sendSize+recvSize, r.shareable[rank])
	if err != nil {
		return err
	}
	recv, shift := send, int64(4*rng.IntN(8))
	sendPtr, recvPtr := send.Ptr().Add(shift+sendAt), send.Ptr().Add(shift+recvAt)
	if !r.inPlace {
		for recv.Ptr() == send.Ptr() {
			if recv, err = p.take(rng, recvSize, rng.IntN(2) == 0); err != nil {
				return err
			}
			if recv.Ptr() == send.Ptr() {
				if recv, err = e.memory(recvSize+64, true); err != nil {
					return err
				}
				p.kept = append(p.kept, recv)
			}
		}
		sendPtr, recvPtr = send.Ptr().Add(shift), recv.Ptr().Add(shift)
	}
	copy(device.Bytes(sendPtr, sendSize), r.inputs[rank])
	want := expected(r.kind, r.inputs, r.each, rank, r.root)
	e.seq++
	err = e.engine.Enqueue(e.seq, []collective.Request{{Collective: r.kind, Send: sendPtr, Recv: recvPtr,
		Count: r.each / 4, Type: datatype.Uint32, Root: r.root, Stream: e.stream}})
	if err == nil {
		err = e.stream.Synchronize(context.Background())
	}
	if err != nil {
		return err
	}
	if got := device.Bytes(recvPtr, int64(len(want))); !bytes.Equal(got, want) {
		return fmt.Errorf("%v of %d bytes, root %d, in place %v: wrong", r.kind, r.each, r.root, r.inPlace)
	}
	if !r.inPlace && !bytes.Equal(device.Bytes(sendPtr, sendSize), r.inputs[rank]) {
		return fmt.Errorf("%v of %d bytes, root %d: the input changed", r.kind, r.each, r.root)
	}
	return nil
}

// TestBuffers runs random requests on changing buffers, some of which only their own process can map, and compares with
// the definitions.
func TestBuffers(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 80
	}
	for _, distant := range []bool{false, true} {
		t.Run(fmt.Sprintf("distant=%v", distant), func(t *testing.T) {
			const n = 4
			boots := bootstrap.NewLocalGroup(n)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			mappings := make([]int, n)
			each(t, n, func(rank int) error {
				e, err := open(boots[rank], 64)
				if err != nil {
					return err
				}
				if distant {
					e.engine.Distant()
				}
				all, own := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, uint64(rank)+1))
				p := &pool{e: e}
				for k := range rounds {
					r := newRound(all, n)
					if err := p.run(own, r); err != nil {
						return fmt.Errorf("round %d: %w", k, err)
					}
					most := 6
					if k%100 > 60 {
						most = 50 // more than can be registered
					}
					if err := p.trim(own, most); err != nil {
						return err
					}
				}
				registered, mapped := e.engine.Live()
				if registered > 32 || distant && registered == 0 {
					return fmt.Errorf("%d registrations", registered)
				}
				mappings[rank] = mapped
				if err := e.close(); err != nil {
					return err
				}
				if registered, mapped := e.engine.Live(); registered != 0 || mapped != 0 {
					return fmt.Errorf("%d registrations and %d mappings after Close", registered, mapped)
				}
				return p.trim(own, 0)
			})
			for rank, m := range mappings {
				if distant != (m > 0) {
					t.Errorf("rank %d has %d mappings", rank, m)
				}
			}
		})
	}
}

// TestForced runs every algorithm by name, for all sizes, and checks the engine's list of algorithms.
func TestForced(t *testing.T) {
	for _, name := range []string{"one_shot", "two_shot", "direct"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOCCL_ALGO", "all_reduce:"+name+",reduce_scatter:staged,broadcast:somebody_elses")
			const n = 3
			boots := bootstrap.NewLocalGroup(n)
			each(t, n, func(rank int) error {
				e, err := open(boots[rank], 3<<20)
				if err != nil {
					return err
				}
				for _, a := range e.engine.Algorithms() {
					if forced := a.Collective == collective.AllReduce; forced && (len(a.Chosen) == 1) != (a.Name == name) {
						return fmt.Errorf("%v %s: chosen %v", a.Collective, a.Name, a.Chosen)
					}
				}
				for _, size := range []int64{4, 5000 * 4, 3 << 20} {
					in, out := device.Bytes(e.mem[0].Ptr(), size), device.Bytes(e.mem[1].Ptr(), size)
					for i := int64(0); i < size; i += 4 {
						binary.LittleEndian.PutUint32(in[i:], uint32(i)*uint32(rank+1))
					}
					e.seq++
					reqs := []collective.Request{{Collective: collective.AllReduce, Send: e.mem[0].Ptr(), Recv: e.mem[1].Ptr(),
						Count: size / 4, Type: datatype.Uint32, Stream: e.stream}}
					if err := e.engine.Enqueue(e.seq, reqs); err != nil {
						return err
					}
					if err := e.stream.Synchronize(context.Background()); err != nil {
						return err
					}
					for i := int64(0); i < size; i += 4 {
						if got, want := binary.LittleEndian.Uint32(out[i:]), uint32(i)*6; got != want {
							return fmt.Errorf("%d bytes: element %d is %d, not %d", size, i/4, got, want)
						}
					}
				}
				return e.close()
			})
		})
	}
}
