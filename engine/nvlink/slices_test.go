package nvlink

import (
	"math"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
)

// Slices choose the kernel for this rank's addresses, and the same owners, grid and FIFOs on all ranks.
func TestSlices(t *testing.T) {
	for _, n := range []int{3, 4} {
		for r, e := range mockEngines(t, n) {
			must(t, e.Force("all_reduce:slices,reduce:slices/12,broadcast:slices/7,all_gather:slices/4,reduce_scatter:slices"))
			s, mem := newStream(t, e), memory(t, e, 64<<20)
			const count = 1 << 18
			root, all := n-1, uint32(1)<<n-1
			others := all &^ (1 << root)
			for _, c := range []struct {
				what                           collective.Collective
				typ                            datatype.Type
				op                             datatype.Op
				shift                          int64
				kernel                         string
				bytes, slice, sends, receives  int64
				owners, sources, takers, keeps uint32
				channels                       int64
			}{
				{collective.AllReduce, datatype.Float32, datatype.Sum, 0, "slices_bulk_float32_sum", 4 * count,
					sliceOf(4*count, int64(n)), 1, 1, all, all, all, 1, 16},
				{collective.AllReduce, datatype.Float32, datatype.Sum, 8, "slices_float32", 4 * count,
					sliceOf(4*count, int64(n)), 1, 1, all, all, all, 1, 16},
				{collective.AllReduce, datatype.Bfloat16, datatype.PreMulSum, 0, "slices_bfloat16", 2 * count,
					sliceOf(2*count, int64(n)), 1, 1, all, all, all, 1, 16},
				{collective.AllReduce, datatype.Uint8, datatype.Avg, 0, "slices_bulk_int8", count,
					sliceOf(count, int64(n)), 1, 1, all, all, all, 1, 11 - int64(n-3)*3},
				{collective.ReduceScatter, datatype.Bfloat16, datatype.Avg, 0, "slices_bulk_bfloat16_sum",
					2 * count * int64(n), 2 * count, 1, 0, all, all, 0, 1, 16},
				{collective.ReduceScatter, datatype.Float16, datatype.Max, 0, "slices_bulk_float16",
					2 * count * int64(n), 2 * count, 1, 0, all, all, 0, 1, 16},
				{collective.AllGather, datatype.Float64, datatype.Sum, 0, "slices_bulk_move",
					8 * count * int64(n), 8 * count, 0, 1, all, 0, all, 1, 4},
				{collective.Reduce, datatype.Float32, datatype.Sum, 0, "slices_bulk_float32_sum", 4 * count,
					sliceOf(4*count, int64(n-1)), 1, 1, others, all, 1 << root, 0, 12},
				{collective.Broadcast, datatype.Int8, datatype.Sum, 4, "slices_move", count,
					sliceOf(count, int64(n-1)), 1, 1, others, 1 << root, others, 1, 7},
			} {
				req := collective.Request{Collective: c.what, Send: mem.Add(c.shift), Recv: mem.Add(32<<20 + c.shift),
					Count: count, Type: c.typ, Op: c.op, Root: root, Stream: s}
				calls := launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{req})) }))
				if len(calls) != 1 || calls[0].Kernel != c.kernel {
					t.Fatalf("%d ranks, %v: %v, want %s", n, c.what, names(calls), c.kernel)
				}
				a := argsOf[sliceArgs](t, calls[0])
				if a.owners != c.owners || a.sources != c.sources || a.takers != c.takers || a.keeps != c.keeps ||
					int64(a.bytes) != c.bytes || int64(a.slice) != c.slice || int64(a.sendStride) != c.sends*c.slice ||
					int64(a.recvStride) != c.receives*c.slice || a.rank != uint32(r) {
					t.Errorf("%d ranks, %v: %+v", n, c.what, a)
				}
				if mirrors := c.what == collective.Broadcast && r == root; (a.mirror != 0) != mirrors {
					t.Errorf("%d ranks, %v: the root keeps what it sends at %#x", n, c.what, a.mirror)
				}
				if a.window != e.stream.window || a.epochs != e.args.epochs+stateSlices ||
					int64(a.flagsOffset) != streamBytes(n) {
					t.Errorf("%d ranks, %v: %+v", n, c.what, a)
				}
				if int64(calls[0].Grid) != c.channels || a.slotBytes != slotsOf(c.slice, c.channels, int64(n)) {
					t.Errorf("%d ranks, %v: %d blocks and FIFOs of %#x, want %d", n, c.what, calls[0].Grid, a.slotBytes,
						c.channels)
				}
			}
		}
	}
}

// All FIFOs of a launch fit, and have more slots than the lag of the kernels. The number of slots has seven bits.
func TestSlotsFit(t *testing.T) {
	for channels := int64(1); channels <= sliceChannels; channels++ {
		for ranks := int64(2); ranks <= maxRanks; ranks++ {
			for _, slice := range []int64{1, 16 << 10, 1 << 20, 64 << 20, 1 << 33} {
				x := int64(slotsOf(slice, channels, ranks))
				piece, depth := x&^127, x&127
				if piece < 128 || depth <= sliceLag || 2*(ranks-1)*channels*depth*piece > sliceRegion {
					t.Errorf("%d channels of %d ranks, %d bytes: %d slots of %d", channels, ranks, slice, depth, piece)
				}
			}
		}
	}
	if got := (limits{most: math.MaxInt64}).channels(1, bulkChannels, sliceChannels); got != 1 {
		t.Errorf("a byte goes by %d channels", got)
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
	at := layout{n, true}
	for r := range n {
		base := uint64(e.arena.Ptr[r])
		if lines.window[r] != base || small.window[r] != base+uint64(at.lineBytes()) || lines.slotBytes != small.slotBytes {
			t.Errorf("rank %d: LL128 at %#x, LL at %#x of a window at %#x", r, lines.window[r], small.window[r], base)
		}
	}
	if e.p2p.window[0] != uint64(e.arena.Ptr[0])+uint64(at.p2pOffset()) {
		t.Error("messages begin elsewhere than LL ends")
	}
}
