package nvlink

import (
	"math"
	"strings"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
)

// The ring chooses the kernel for the case, the slices, and the same grid and FIFOs on all ranks, whatever their
// addresses.
func TestRing(t *testing.T) {
	for _, n := range []int{3, 4} {
		engines := mockEngines(t, n)
		for r, e := range engines {
			must(t, e.Force("all_reduce:ring,reduce:ring/64,broadcast:ring/40,all_gather:ring/24,reduce_scatter:ring"))
			s, mem := newStream(t, e), memory(t, e, 64<<20)
			const count = 1 << 18 // 1 MiB of float32
			total, root, slice := uint64(4*count), uint32(n-1), uint64(sliceOf(4*count, int64(n)))
			half := uint64(sliceOf(2*count, int64(n)))
			few := func(slice uint64) int64 { return int64(slice+ringLeast-1) / ringLeast }
			for _, c := range []struct {
				what     collective.Collective
				typ      datatype.Type
				op       datatype.Op
				shift    int64
				kernel   string
				stride   [2]uint64
				root     uint32
				channels int64
				slot     uint32 // with the number of slots
				threads  int
			}{
				{collective.AllReduce, datatype.Float32, datatype.Sum, 0, "all_reduce_ring_float32_sum", [2]uint64{slice, slice},
					everyone, few(slice), 128<<10 + 4, 544},
				{collective.AllReduce, datatype.Float32, datatype.Sum, 8, "all_reduce_ring_float32", [2]uint64{slice, slice},
					everyone, few(slice), 128<<10 + 4, 544},
				{collective.AllReduce, datatype.Float32, datatype.PreMulSum, 0, "all_reduce_ring_float32", [2]uint64{slice, slice},
					everyone, few(slice), 128<<10 + 4, 544},
				{collective.AllReduce, datatype.Bfloat16, datatype.Avg, 0, "all_reduce_ring_bfloat16_sum", [2]uint64{half, half},
					everyone, few(half), 128<<10 + 4, 544},
				{collective.AllReduce, datatype.Float16, datatype.Max, 0, "all_reduce_ring_float16", [2]uint64{half, half},
					everyone, few(half), 128<<10 + 4, 544},
				{collective.Reduce, datatype.Float32, datatype.Avg, 0, "reduce_ring_float32_sum", [2]uint64{}, root, 64, 32<<10 + 4,
					288},
				{collective.Reduce, datatype.Uint32, datatype.Sum, 0, "reduce_ring_int32", [2]uint64{}, root, 64, 32<<10 + 4, 288},
				{collective.Broadcast, datatype.Float32, datatype.Sum, 0, "broadcast_ring_words", [2]uint64{}, root, 40, 64<<10 + 4,
					544},
				{collective.Broadcast, datatype.Float32, datatype.Sum, 4, "broadcast_ring", [2]uint64{}, root, 40, 64<<10 + 4, 544},
				{collective.AllGather, datatype.Float32, datatype.Sum, 0, "all_gather_ring_words", [2]uint64{0, total}, everyone,
					24, 128<<10 + 4, 544},
				{collective.ReduceScatter, datatype.Int32, datatype.Prod, 0, "reduce_scatter_ring_int32", [2]uint64{total, 0},
					everyone, 64, 32<<10 + 4, 288},
				{collective.ReduceScatter, datatype.Float32, datatype.Sum, 0, "reduce_scatter_ring_float32_sum",
					[2]uint64{total, 0}, everyone, 64, 32<<10 + 4, 288},
				{collective.ReduceScatter, datatype.Bfloat16, datatype.Sum, 0, "reduce_scatter_ring_bfloat16_sum",
					[2]uint64{total / 2, 0}, everyone, 32, 64<<10 + 4, 544},
				{collective.ReduceScatter, datatype.Float16, datatype.PreMulSum, 0, "reduce_scatter_ring_float16",
					[2]uint64{total / 2, 0}, everyone, 32, 64<<10 + 4, 544},
			} {
				bytes := uint64(c.typ.Size()) * count
				req := collective.Request{Collective: c.what, Send: mem.Add(c.shift), Recv: mem.Add(32<<20 + c.shift), Count: count,
					Type: c.typ, Op: c.op, Root: int(root), Stream: s}
				calls := launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{req})) }))
				if len(calls) != 1 || calls[0].Kernel != c.kernel {
					t.Fatalf("%d ranks, %v: %v, want %s", n, c.what, names(calls), c.kernel)
				}
				a := argsOf[collectiveArgs](t, calls[0])
				if a.sendStride != c.stride[0] || a.recvStride != c.stride[1] || a.root != c.root || a.bytes != bytes ||
					a.rank != uint32(r) {
					t.Errorf("%d ranks, %v: %+v", n, c.what, a)
				}
				want := uint32(c.op)
				if c.typ == datatype.Uint32 {
					want |= unsignedBit
				}
				if a.op != want {
					t.Errorf("%d ranks, %v of %v: operator %#x, want %#x", n, c.what, c.typ, a.op, want)
				}
				if a.window != e.stream.window || a.epochs != e.args.epochs+stateRing || int64(a.flagsOffset) != streamBytes(n) {
					t.Errorf("%d ranks, %v: %+v", n, c.what, a)
				}
				if int64(calls[0].Grid) != c.channels || a.slotBytes != c.slot || int(calls[0].Block) != c.threads {
					t.Errorf("%d ranks, %v: %d blocks of %d and FIFOs of %#x, want %d of %d and %#x", n, c.what, calls[0].Grid,
						calls[0].Block, a.slotBytes, c.channels, c.threads, c.slot)
				}
			}
			// Partial sums of narrow types must not be rounded on the way: use packets, unless owners hold the sums.
			for _, c := range []struct {
				what   collective.Collective
				typ    datatype.Type
				kernel string
			}{
				{collective.AllReduce, datatype.Uint8, "all_reduce_two_shot_ll128_int8"},
				{collective.AllReduce, datatype.Float8E4M3, "all_reduce_two_shot_ll128_float8e4m3"},
				{collective.ReduceScatter, datatype.Int8, "reduce_scatter_ll128_int8"},
				{collective.Reduce, datatype.Bfloat16, "reduce_ll128_bfloat16"},
				{collective.Reduce, datatype.Int8, "reduce_ll128_int8"},
			} {
				req := collective.Request{Collective: c.what, Send: mem, Recv: mem.Add(32 << 20), Count: count, Type: c.typ,
					Stream: s}
				calls := launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{req})) }))
				if len(calls) != 1 || !strings.HasPrefix(calls[0].Kernel, c.kernel) {
					t.Errorf("%d ranks, %v of %v: %v, want %s", n, c.what, c.typ, names(calls), c.kernel)
				}
			}
		}
	}
}

// Check the shape of launches with enough work for many channels.
func TestRingShapes(t *testing.T) {
	for _, c := range []struct {
		work ringWork
		most int64
		want ringShape
	}{
		{ringWork{slice: 16 << 20, ranks: 4}, 128, ringShape{128, 288, 32 << 10, 3}},
		{ringWork{slice: 16 << 20, ranks: 4}, 96, ringShape{96, 288, 32 << 10, 4}},
		{ringWork{slice: 16 << 20, ranks: 4}, 32, ringShape{32, 544, 64 << 10, 4}},
		{ringWork{slice: 16 << 20, ranks: 4}, 16, ringShape{16, 544, 128 << 10, 4}},
		{ringWork{slice: 1, ranks: 4}, 128, ringShape{1, 544, 128 << 10, 4}},
		{ringWork{slice: 128 << 20, ranks: 4, chain: true}, 128, ringShape{128, 288, 16 << 10, chainSlots}},
		{ringWork{slice: 16 << 20, ranks: 2, chain: true}, 128, ringShape{128, 288, 32 << 10, 3}},
		{ringWork{slice: 16 << 20, ranks: 4, chain: true}, 64, ringShape{64, 288, 32 << 10, 4}},
	} {
		if got := c.work.shape(limits{most: math.MaxInt64}.channels(c.work.slice, c.most, ringChannels)); got != c.want {
			t.Errorf("%+v in %d channels: %+v, want %+v", c.work, c.most, got, c.want)
		}
	}
	// All FIFOs fit, with a chunk and one more slot. Workers hold sums of one slot at most, and there are more slots
	// than a rank's delay.
	for most := int64(1); most <= ringChannels; most++ {
		l := limits{least: most * 3 / 4, most: math.MaxInt64}
		for _, w := range []ringWork{{}, {chain: true}} {
			for _, w.slice = range []int64{1, 100 << 10, 1 << 20, 16 << 20, 1 << 30} {
				for w.ranks = 2; w.ranks <= 4; w.ranks++ {
					s := w.shape(l.channels(w.slice, max(1, most/2), most))
					held := min(s.slot, (s.threads-pipeSignalers)*64)
					if s.channels < 1 || s.channels > most || s.slot%128 != 0 || s.slots >= 128 || s.slots <= ringParts ||
						s.channels*s.slot*s.slots > ringRegion ||
						s.threads > ringFewThreads || s.threads%32 != 0 || held%128 != 0 || s.slot*s.slots/held <= foldLag {
						t.Errorf("%+v in %d channels: %+v", w, most, s)
					}
				}
			}
		}
	}
}

// The protocol depends on sizes alone: a rank with buffers at other addresses has another kernel of the same protocol.
// The two protocols share no memory.
func TestProtocolsAndAddresses(t *testing.T) {
	const n = 4
	e := mockEngines(t, n)[1]
	s, mem := newStream(t, e), memory(t, e, 1<<20)
	must(t, e.Force("all_reduce:one_shot_ll,all_gather:one_shot_ll,reduce_scatter:one_shot_ll"))
	put := func(what collective.Collective, shift int64) (string, *collectiveArgs) {
		calls := launches(noted(t, func() {
			must(t,
				e.Enqueue(1, []collective.Request{{Collective: what, Send: mem.Add(shift), Recv: mem.Add(1<<19 + 2*shift),
					Count: 256, Type: datatype.Bfloat16, Stream: s}}))
		}))
		if len(calls) != 1 {
			t.Fatalf("%v: %v", what, names(calls))
		}
		return calls[0].Kernel, argsOf[collectiveArgs](t, calls[0])
	}
	for what, kernel := range map[collective.Collective][2]string{
		collective.AllReduce:     {"all_reduce_one_shot_ll_bfloat16_sum_n4", "all_reduce_one_shot_ll_bfloat16"},
		collective.AllGather:     {"exchange_ll_n4", "exchange_ll"},
		collective.ReduceScatter: {"reduce_scatter_ll_bfloat16_sum_n4", "reduce_scatter_ll_bfloat16"},
	} {
		for i, shift := range []int64{0, 2} {
			if got, _ := put(what, shift); got != kernel[i] {
				t.Errorf("%v, shifted by %d: %s, want %s", what, shift, got, kernel[i])
			}
		}
	}
	_, small := put(collective.AllReduce, 0)
	must(t, e.Force("all_reduce:one_shot_ll128"))
	_, lines := put(collective.AllReduce, 0)
	at := e.layout()
	for r := range n {
		base := uint64(e.arena.Ptr[r])
		if small.window[r] != base || lines.window[r] != base+uint64(at.offset(piece(ll128))) ||
			lines.slotBytes != small.slotBytes {
			t.Errorf("rank %d: LL128 at %#x, LL at %#x of a window at %#x", r, lines.window[r], small.window[r], base)
		}
	}
}

// A call may ask for more exact sums than its communicator: then no ring of more than two ranks adds floats for it.
func TestRingOfExactCalls(t *testing.T) {
	for _, c := range []struct {
		engine, call collective.Exact
		ranks        int
		of           datatype.Type
		want         bool
	}{
		{0, 0, 4, datatype.Float32, true},
		{0, collective.ExactBatch, 4, datatype.Float32, false},
		{collective.ExactBatch, 0, 4, datatype.Float32, false},
		{0, collective.ExactReference, 2, datatype.Float32, true},
		{0, collective.ExactReference, 4, datatype.Int32, true},
	} {
		e := &Engine{size: c.ranks, exact: c.engine}
		r := &collective.Request{Collective: collective.AllReduce, Type: c.of, Op: datatype.Sum, Exact: c.call}
		if got := e.canUseRing(r); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
