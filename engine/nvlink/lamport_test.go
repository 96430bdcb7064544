package nvlink

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
)

// Which all-reduces run by Lamport packets, in which slots, and what runs instead of the others.
func TestLamport(t *testing.T) {
	for _, n := range []int{2, 3, 4, 8} {
		engines := limitedEngines(t, n, time.Minute)
		e := engines[1]
		s, mem := newStream(t, e), memory(t, e, 32<<20)
		one, two := lamportMost(false, n), lamportMost(true, n)
		for _, c := range []struct {
			shots string
			bytes int64
			ty    datatype.Type
			op    datatype.Op
			shift int64
			takes bool
		}{
			{"one", 1024, datatype.Bfloat16, datatype.Sum, 0, true},
			{"one", 1026, datatype.Float16, datatype.Sum, 2, true},
			{"one", one, datatype.Float32, datatype.Sum, 0, true},
			{"one", one + 4, datatype.Float32, datatype.Sum, 0, false},
			{"two", 1024, datatype.Bfloat16, datatype.Sum, 0, true},
			{"two", two, datatype.Bfloat16, datatype.Sum, 0, true},
			{"two", two + 2, datatype.Bfloat16, datatype.Sum, 0, false},
			{"one", 1024, datatype.Bfloat16, datatype.Avg, 0, false},
			{"one", 1024, datatype.Bfloat16, datatype.Max, 0, false},
			{"one", 1024, datatype.Int32, datatype.Sum, 0, false},
			{"one", 1024, datatype.Float64, datatype.Sum, 0, false},
		} {
			name := fmt.Sprintf("%d ranks, %s-shot, %d bytes of %v, %v", n, c.shots, c.bytes, c.ty, c.op)
			takes := c.takes && pushes(n)
			r := collective.Request{Collective: collective.AllReduce, Send: mem.Add(c.shift), Recv: mem.Add(16<<20 + c.shift),
				Count: c.bytes / c.ty.Size(), Type: c.ty, Op: c.op, Stream: s, Algorithm: c.shots + "_shot_lamport/128"}
			calls := launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{r})) }))
			want := fmt.Sprintf("all_reduce_%s_shot_lamport_%s_sum_n%d", c.shots, typeNames[c.ty], n)
			if len(calls) != 1 || (calls[0].Kernel == want) != takes {
				t.Errorf("%s: %v", name, names(calls))
				continue
			}
			a := argsOf[collectiveArgs](t, calls[0])
			state := uint64(e.launcher.State.Ptr())
			if !takes {
				if two := strings.Contains(calls[0].Kernel, "two_shot"); two != (c.shots == "two" || c.bytes > lamportInstead) {
					t.Errorf("%s: %s instead", name, calls[0].Kernel)
				}
				if a.epochs != state || a.slotBytes != uint32(slotBytes(n)) {
					t.Errorf("%s: %s has epochs at %#x and slots of %d bytes", name, calls[0].Kernel, a.epochs, a.slotBytes)
				}
				continue
			}
			slot := uint32(lamportSlot(lamportBytes/2, n))
			window := e.wide[lamport]
			if c.bytes < 2000 {
				slot, window = uint32(lamportSlot(lamportCore, n)), e.areas[lamport]
			}
			needs := uint32(c.bytes)
			if c.shots == "two" {
				needs = 2 * uint32(a.sendStride)
			}
			if a.epochs != state+stateLamport || a.slotBytes != slot || a.window != window || needs > slot || slot%32 != 0 ||
				calls[0].Grid > uint32(e.lamportBlocks) || calls[0].Block%32 != 0 {
				t.Errorf("%s: %d × %d threads, %+v", name, calls[0].Grid, calls[0].Block, a)
			}
		}
	}
}
