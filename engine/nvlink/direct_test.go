package nvlink

import (
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/mockcuda"
)

// A large request tells the peers where the buffers are that they use, once all ranks have mapped them, and before that
// that they are not. Requests that direct cannot run are the ring's.
func TestDirect(t *testing.T) {
	const n, count = 4, int64(1 << 20)
	engines := mockEngines(t, n)
	type sum struct {
		what   collective.Collective
		typ    datatype.Type
		op     datatype.Op
		shift  int64
		kernel string
	}
	launch := func(e *Engine, mem device.Ptr, c sum) mockcuda.Call {
		t.Helper()
		s := newStream(t, e)
		r := collective.Request{Collective: c.what, Send: mem.Add(c.shift), Recv: mem.Add(32 << 20), Count: count,
			Type: c.typ, Op: c.op, Stream: s}
		calls := launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{r})) }))
		if len(calls) != 1 || calls[0].Kernel != c.kernel {
			t.Fatalf("%v of %v: %v, want %s", c.what, c.typ, names(calls), c.kernel)
		}
		return calls[0]
	}
	put := func(e *Engine, mem device.Ptr, c sum) (mockcuda.Call, *directArgs) {
		t.Helper()
		call := launch(e, mem, c)
		return call, argsOf[directArgs](t, call)
	}
	const unused, atRoot = int64(-1), int64(-2)
	for r, e := range engines {
		must(t, e.Force("all_reduce:direct,all_gather:direct/6,reduce_scatter:direct/12,all_to_all:direct/16,"+
			"gather:direct/4,scatter:direct,broadcast:direct,reduce:direct"))
		mem := memory(t, e, 64<<20)
		for _, c := range []struct {
			sum
			grid    uint32
			in, out int64 // offsets in mem, or unused
		}{
			{sum{collective.AllReduce, datatype.Float32, datatype.Sum, 0, "all_reduce_direct_float32"}, 8, 0, 32 << 20},
			{sum{collective.AllReduce, datatype.Bfloat16, datatype.Avg, 64, "all_reduce_direct_bfloat16"}, 8, 64, 32 << 20},
			{sum{collective.ReduceScatter, datatype.Float16, datatype.Sum, 0, "reduce_scatter_direct_float16"}, 12, 0, unused},
			{sum{collective.AllGather, datatype.Int8, datatype.Sum, 0, "move_direct"}, 6, unused, 32 << 20},
			{sum{collective.AllToAll, datatype.Float32, datatype.Sum, 0, "move_direct"}, 16, unused, 32 << 20},
			{sum{collective.Gather, datatype.Float32, datatype.Sum, 0, "move_direct"}, 4, unused, atRoot},
			{sum{collective.Scatter, datatype.Float32, datatype.Sum, 0, "move_direct"}, 8, unused, 32 << 20},
			{sum{collective.AllToAll, datatype.Float32, datatype.Sum, 4, "move_direct"}, 16, unused, 32 << 20},
			{sum{collective.Reduce, datatype.Int64, datatype.Prod, 0, "reduce_direct_int64"}, 8, 0, atRoot},
		} {
			call, a := put(e, mem, c.sum)
			for end := time.Now().Add(time.Minute); a.in[0] == 0 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
				call, a = put(e, mem, c.sum)
			}
			if call.Grid != c.grid || int64(a.flagsOffset) != streamBytes(n)+ringFlagBytes(n) || a.window != e.stream.window {
				t.Errorf("rank %d, %s: %d blocks, %+v", r, c.kernel, call.Grid, a)
			}
			told := func(at int64) uint64 {
				if at == atRoot && r == 0 {
					at = 32 << 20
				}
				if at < 0 {
					return unshared
				}
				return uint64(mem.Add(at))
			}
			for p := range n { // one process: the mappings lie at the owner's addresses
				if a.in[p] != told(c.in) || a.out[p] != told(c.out) {
					t.Errorf("rank %d, %s: %#x and %#x for rank %d, want %#x and %#x", r, c.kernel, a.in[p], a.out[p], p,
						told(c.in), told(c.out))
				}
			}
		}
		shifted := sum{collective.AllReduce, datatype.Float32, datatype.Sum, 4, "all_reduce_direct_float32"}
		if _, a := put(e, mem, shifted); a.in != [maxRanks]uint64{} || a.out != a.in {
			t.Errorf("rank %d: buffers that are not aligned are offered: %+v", r, a)
		}
		inPlace := collective.Request{Collective: collective.AllToAll, Send: mem, Recv: mem, Count: count,
			Type: datatype.Float32, Stream: newStream(t, e)}
		calls := launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{inPlace})) }))
		if a := argsOf[directArgs](t, calls[0]); a.in != [maxRanks]uint64{} || a.out != a.in {
			t.Errorf("rank %d: an all-to-all in place offers its buffer: %+v", r, a)
		}
		for _, c := range []struct {
			sum
			grid uint32
		}{
			{sum{collective.AllReduce, datatype.Float32, datatype.Max, 0, "reduce_direct_float32"}, 8},
			{sum{collective.AllReduce, datatype.Uint8, datatype.Sum, 0, "reduce_direct_int8"}, 8},
			{sum{collective.Reduce, datatype.Bfloat16, datatype.Sum, 0, "reduce_direct_bfloat16"}, 8},
			{sum{collective.ReduceScatter, datatype.Bfloat16, datatype.PreMulSum, 0, "reduce_direct_bfloat16"}, 12},
			{sum{collective.Broadcast, datatype.Float32, datatype.Sum, 0, "broadcast_ring_words"}, directInstead},
		} {
			if call := launch(e, mem, c.sum); call.Grid != c.grid {
				t.Errorf("rank %d, %s: %d blocks", r, c.kernel, call.Grid)
			}
		}
		e.table.forced = [collective.NumCollectives]bool{} // as a table: the sums and moves that tables are measured with
		for _, c := range []sum{
			{collective.AllReduce, datatype.Float32, datatype.Max, 0, "all_reduce_ring_float32"},
			{collective.AllReduce, datatype.Int32, datatype.Sum, 0, "all_reduce_ring_int32"},
			{collective.ReduceScatter, datatype.Bfloat16, datatype.PreMulSum, 0, "reduce_scatter_ring_bfloat16"},
		} {
			if call := launch(e, mem, c); call.Grid != directInstead {
				t.Errorf("rank %d, %s: %d blocks", r, c.kernel, call.Grid)
			}
		}
	}
}

// TestOrderedLarge: where the order of terms is promised and the table says ring, direct sums large messages of more
// than two ranks, and packets what direct cannot. Rings move data, and sum integers.
func TestOrderedLarge(t *testing.T) {
	t.Setenv("GOCCL_EXACT", "batch")
	for _, n := range []int{2, 4} {
		engines := mockEngines(t, n)
		for _, e := range engines {
			must(t, e.Force("all_reduce:ring/32,reduce:ring,all_gather:ring,reduce_scatter:ring"))
			mem, s := memory(t, e, 64<<20), newStream(t, e)
			packets := [2]string{"all_reduce_ring_", "all_reduce_two_shot_ll128_"}
			for _, c := range []struct {
				what collective.Collective
				typ  datatype.Type
				op   datatype.Op
				more int64     // elements
				want [2]string // of two ranks, and of four
			}{
				{collective.AllReduce, datatype.Bfloat16, datatype.Sum, 0,
					[2]string{"all_reduce_ring_", "all_reduce_direct_bfloat16"}},
				{collective.ReduceScatter, datatype.Float32, datatype.Avg, 0,
					[2]string{"reduce_scatter_ring_", "reduce_scatter_direct_float32"}},
				{collective.AllReduce, datatype.Float32, datatype.Max, 0, packets},
				{collective.AllReduce, datatype.Float32, datatype.Sum, 1, packets},
				{collective.Reduce, datatype.Float32, datatype.Sum, 0, [2]string{"reduce_ring_", "reduce_ll128_"}},
				{collective.AllReduce, datatype.Int32, datatype.Sum, 0, [2]string{"all_reduce_ring_", "all_reduce_ring_"}},
				{collective.AllGather, datatype.Float32, datatype.Sum, 0, [2]string{"all_gather_ring", "all_gather_ring"}},
			} {
				r := collective.Request{Collective: c.what, Send: mem, Recv: mem.Add(32 << 20), Count: 1<<20 + c.more,
					Type: c.typ, Op: c.op, Stream: s}
				calls := launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{r})) }))
				if want := c.want[n/2-1]; len(calls) != 1 || !strings.HasPrefix(calls[0].Kernel, want) {
					t.Errorf("%d ranks, %v of %v, %v: %v, want %s", n, c.what, c.typ, c.op, names(calls), want)
				}
			}
		}
	}
}
