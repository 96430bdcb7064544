package nvlink

import (
	"strings"
	"testing"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
)

// The ring: the kernel for the case, the slices, and the same grid and FIFOs on all ranks whatever their addresses are.
func TestRing(t *testing.T) {
	for _, n := range []int{3, 4} {
		engines := mockEngines(t, n)
		for r, e := range engines {
			must(t, e.Force("all_reduce:ring,reduce:ring/64,broadcast:ring/40,all_gather:ring/24,reduce_scatter:ring"))
			s, mem := newStream(t, e), memory(t, e, 64<<20)
			const count = 1 << 18 // 1 MiB of float32
			total, root, slice := uint64(4*count), uint32(n-1), uint64(sliceOf(4*count, int64(n)))
			for _, c := range []struct {
				what     algorithm.Collective
				typ      datatype.Type
				op       datatype.Op
				shift    int64
				kernel   string
				stride   [2]uint64
				root     uint32
				channels int64
				slot     uint32
			}{
				{algorithm.AllReduce, datatype.Float32, datatype.Sum, 0, "all_reduce_ring_float32_sum", [2]uint64{slice, slice}, everyone, int64(slice+ringLeast-1) / ringLeast, 0},
				{algorithm.AllReduce, datatype.Float32, datatype.Sum, 8, "all_reduce_ring_float32", [2]uint64{slice, slice}, everyone, int64(slice+ringLeast-1) / ringLeast, 0},
				{algorithm.AllReduce, datatype.Float32, datatype.PreMulSum, 0, "all_reduce_ring_float32", [2]uint64{slice, slice}, everyone, int64(slice+ringLeast-1) / ringLeast, 0},
				{algorithm.Reduce, datatype.Float32, datatype.Avg, 0, "reduce_ring_float32_sum", [2]uint64{}, root, 64, 32 << 10},
				{algorithm.Reduce, datatype.Uint32, datatype.Sum, 0, "reduce_ring_uint32", [2]uint64{}, root, 64, 32 << 10},
				{algorithm.Broadcast, datatype.Float32, datatype.Sum, 0, "broadcast_ring_words", [2]uint64{}, root, 40, 64 << 10},
				{algorithm.Broadcast, datatype.Float32, datatype.Sum, 4, "broadcast_ring", [2]uint64{}, root, 40, 64 << 10},
				{algorithm.AllGather, datatype.Float32, datatype.Sum, 0, "all_gather_ring_words", [2]uint64{0, total}, everyone, 24, 128 << 10},
				{algorithm.ReduceScatter, datatype.Int32, datatype.Prod, 0, "reduce_scatter_ring_int32", [2]uint64{total, 0}, everyone, 64, 32 << 10},
				{algorithm.ReduceScatter, datatype.Float32, datatype.Sum, 0, "reduce_scatter_ring_float32_sum", [2]uint64{total, 0}, everyone, 64, 32 << 10},
			} {
				req := algorithm.Request{Collective: c.what, Send: mem.Add(c.shift), Recv: mem.Add(32<<20 + c.shift), Count: count, Type: c.typ, Op: c.op, Root: int(root), Stream: s}
				calls := launches(noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{req})) }))
				if len(calls) != 1 || calls[0].Kernel != c.kernel {
					t.Fatalf("%d ranks, %v: %v, want %s", n, c.what, names(calls), c.kernel)
				}
				a := argsOf[collectiveArgs](t, calls[0])
				if a.sendStride != c.stride[0] || a.recvStride != c.stride[1] || a.root != c.root || a.bytes != total || a.rank != uint32(r) {
					t.Errorf("%d ranks, %v: %+v", n, c.what, a)
				}
				if a.window != e.stream.window || a.epochs != e.args.epochs+stateRing || int64(a.flagsOffset) != streamBytes(n) {
					t.Errorf("%d ranks, %v: %+v", n, c.what, a)
				}
				if c.slot == 0 {
					c.slot = uint32(ringSlot(c.channels))
				}
				if int64(calls[0].Grid) != c.channels || a.slotBytes != c.slot || calls[0].Block != ringThreads {
					t.Errorf("%d ranks, %v: %d blocks and slots of %d bytes, want %d and %d", n, c.what, calls[0].Grid, a.slotBytes, c.channels, c.slot)
				}
			}
			// Partial sums of narrow types are not rounded on their way: packets.
			for what, kernel := range map[algorithm.Collective]string{algorithm.AllReduce: "all_reduce_two_shot_ll128_bfloat16", algorithm.Reduce: "reduce_ll128_bfloat16", algorithm.ReduceScatter: "reduce_scatter_ll128_bfloat16"} {
				req := algorithm.Request{Collective: what, Send: mem, Recv: mem.Add(32 << 20), Count: count, Type: datatype.Bfloat16, Stream: s}
				calls := launches(noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{req})) }))
				if len(calls) != 1 || !strings.HasPrefix(calls[0].Kernel, kernel) {
					t.Errorf("%d ranks, %v of bfloat16: %v, want %s", n, what, names(calls), kernel)
				}
			}
		}
	}
}

// What crosses the links depends on sizes alone: a rank whose buffers lie elsewhere has another kernel of the same protocol. The two protocols have no
// memory in common.
func TestProtocolsAndAddresses(t *testing.T) {
	const n = 4
	e := mockEngines(t, n)[1]
	s, mem := newStream(t, e), memory(t, e, 1<<20)
	must(t, e.Force("all_reduce:one_shot_ll,all_gather:one_shot_ll,reduce_scatter:one_shot_ll"))
	put := func(what algorithm.Collective, shift int64) (string, *collectiveArgs) {
		calls := launches(noted(t, func() {
			must(t, e.Enqueue(1, []algorithm.Request{{Collective: what, Send: mem.Add(shift), Recv: mem.Add(1<<19 + 2*shift), Count: 256, Type: datatype.Bfloat16, Stream: s}}))
		}))
		if len(calls) != 1 {
			t.Fatalf("%v: %v", what, names(calls))
		}
		return calls[0].Kernel, argsOf[collectiveArgs](t, calls[0])
	}
	for what, kernel := range map[algorithm.Collective][2]string{
		algorithm.AllReduce:     {"all_reduce_one_shot_ll_bfloat16_sum_n4", "all_reduce_one_shot_ll_bfloat16"},
		algorithm.AllGather:     {"exchange_ll_n4", "exchange_ll"},
		algorithm.ReduceScatter: {"reduce_scatter_ll_bfloat16_sum_n4", "reduce_scatter_ll_bfloat16"},
	} {
		for i, shift := range []int64{0, 2} {
			if got, _ := put(what, shift); got != kernel[i] {
				t.Errorf("%v, shifted by %d: %s, want %s", what, shift, got, kernel[i])
			}
		}
	}
	_, small := put(algorithm.AllReduce, 0)
	must(t, e.Force("all_reduce:one_shot_ll128"))
	_, lines := put(algorithm.AllReduce, 0)
	for r := range n {
		base := uint64(e.windows.Ptr[r])
		if lines.window[r] != base || small.window[r] != base+uint64(lineBytes(n)) || lines.slotBytes != small.slotBytes {
			t.Errorf("rank %d: LL128 at %#x, LL at %#x of a window at %#x", r, lines.window[r], small.window[r], base)
		}
	}
	if e.p2p.window[0] != uint64(e.windows.Ptr[0])+uint64(lineBytes(n)+packetBytes(n)) {
		t.Error("messages begin elsewhere than LL ends")
	}
}
