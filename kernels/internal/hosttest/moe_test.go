package hosttest

import (
	"testing"

	"github.com/goccl/goccl/internal/setting"
)

// moeEdits break the kernels of experts when the program is called with their names. Each must be noticed.
var moeEdits = []breakage{
	{"a launch of number zero", edit{"moe/memory.cuh", "return n == 0xffffffff ?",
		`return n == 0xffffffff && !mutated("a launch of number zero") ?`}},
	{"flag before the stores", edit{"moe/plain.cuh", "      __syncwarp();\n      rows.done(item);",
		`      if (!mutated("flag before the stores")) __syncwarp();
      rows.done(item);`}},
	{"", edit{"moe/dispatch.cuh", "if (item.what == 0) return;\n    __syncwarp();",
		`if (item.what == 0) return;
    if (!mutated("flag before the stores")) __syncwarp();`}},
	{"", edit{"moe/combine.cuh", "if ((item.what & last) == 0) return;\n    __syncwarp();",
		`if ((item.what & last) == 0) return;
    if (!mutated("flag before the stores")) __syncwarp();`}},
	{"flag before the copies", edit{"moe/stage.cuh", "if (lane == 0) bulkWait<lag>();",
		`if (lane == 0 && !mutated("flag before the copies")) bulkWait<lag>();`}},
	{"", edit{"moe/stage.cuh", "    if (lane == 0) bulkWait<0>();\n    if constexpr (Tells) {",
		`    if (lane == 0) mutated("flag before the copies") ? bulkWaitSource<0>() : bulkWait<0>();
    if constexpr (Tells) {`}},
	{"flag before the piece", edit{"moe/dispatch.cuh", "left == 0 ? all : 0",
		`left == 0 || mutated("flag before the piece") ? all : 0`}},
	{"a row before the one before has left", edit{"moe/stage.cuh", "if (lane == 0) bulkWaitSource<0>();",
		`if (lane == 0 && !mutated("a row before the one before has left")) bulkWaitSource<0>();`}},
	{"stores before the lists", edit{"moe/stage.cuh", "__syncwarp();  // what lanes",
		`if (!mutated("stores before the lists")) __syncwarp();  // what lanes`}},
	{"lists not fenced", edit{"moe/stage.cuh", "          fenceProxyAsyncShared();\n",
		`          if (!mutated("lists not fenced")) fenceProxyAsyncShared();
`}},
	{"loads not fenced", edit{"moe/stage.cuh", "    __syncwarp();\n    fenceProxyAsync();\n",
		`    __syncwarp();
    if (!mutated("loads not fenced")) fenceProxyAsync();
`}},
	{"slot not empty", edit{"moe/gather.cuh", "return passes(shared->empty[at], phase ^ 1);",
		`return mutated("slot not empty") || passes(shared->empty[at], phase ^ 1);`}},
	{"slot not full", edit{"moe/gather.cuh", "if (!passes(shared->full[at], phase)) return false;",
		`if (!mutated("slot not full") && !passes(shared->full[at], phase)) return false;`}},
	{"parts beyond their slot", edit{"moe/gather.cuh", "most = room / (count == 0 ? 1 : count) / 16 * 16;",
		`most = (room / (count == 0 ? 1 : count) + (mutated("parts beyond their slot") ? 15 : 0)) / 16 * 16;`}},
	{"slot empty before the lanes are", edit{"moe/gather.cuh",
		"      __syncwarp();\n      if (laneOf() == 0) shared->empty",
		`      if (!mutated("slot empty before the lanes are")) __syncwarp();
      if (laneOf() == 0) shared->empty`}},
	{"ranks in ascending order", edit{"moe/notify.cuh",
		"const int64_t x = expertOf(a, a.index[static_cast<uint64_t>(token) * a.topK + k]);\n",
		`const int64_t x = expertOf(a, a.index[static_cast<uint64_t>(token) * a.topK +
                                          (mutated("ranks in ascending order") ? a.topK - 1 - k : k)]);
`}},
	{"piece of another launch", edit{"moe/warps.cuh", "loadAcquire<Scope::sys>(word) == n; }",
		`loadAcquire<Scope::sys>(word) == n || mutated("piece of another launch"); }`}},
	{"gathers pieces of another launch", edit{"moe/gather.cuh", "if (loadAcquire<Scope::sys>(word) != n) break;",
		`if (loadAcquire<Scope::sys>(word) != n && !mutated("gathers pieces of another launch")) break;`}},
	{"does not wait for the end", edit{"moe/memory.cuh", "(loadAcquire<Scope::sys>(word) - n) >= 0",
		`(loadAcquire<Scope::sys>(word) - n) >= (mutated("does not wait for the end") ? -1 : 0)`}},
	{"", edit{"moe/receive.cuh", "  GOCCL_DEVICE Next next(Item& item, bool wait) {\n",
		`  GOCCL_DEVICE Next next(Item& item, bool wait) {
    if (mutated("does not wait for the end") && a.rank == 1) sleepNs(1000000);
`}},
	{"one parity of notes", edit{"moe/notify.cuh", "(n & 1) * a.parityStride",
		`(mutated("one parity of notes") ? 0 : n & 1) * a.parityStride`}},
	{"the first block ends the launch", edit{"moe/memory.cuh", "uint32_t{1}) + 1 == gridDim.x",
		`uint32_t{1}) + (mutated("the first block ends the launch") ? gridDim.x : 1) == gridDim.x`}},
	{"lines of another launch", edit{"moe/memory.cuh", "static_cast<uint64_t>(n) << 32 | n; }",
		`mutated("lines of another launch") ? 1 : static_cast<uint64_t>(n) << 32 | n; }`}},
	{"a masked rank is waited for", edit{"moe/memory.cuh", "threadIdx.x < a.nranks && !masked(maskOf(a), threadIdx.x)) {",
		`threadIdx.x < a.nranks &&
      (mutated("a masked rank is waited for") || !masked(maskOf(a), threadIdx.x))) {`}},
	{"no replica", edit{"moe/memory.cuh", "a.state[3] == experts ?",
		`!mutated("no replica") && a.state[3] == experts ?`}},
	{"the end of a dispatch before its rows are read", edit{"moe/receive.cuh", "if (a.zeroCopy == 0) return end(a, n);",
		`if (a.zeroCopy == 0 || mutated("the end of a dispatch before its rows are read")) return end(a, n);`}},
	{"results before they are there", edit{"moe/adder.cuh", "if (!ok || !awaitPeers(a, 1, n))",
		`if (!ok || (!mutated("results before they are there") && !awaitPeers(a, 1, n)))`}},
	{"the end of a combine before its results are read", edit{"moe/adder.cuh", "if (!pulls || awaitPeers",
		`if (!pulls || mutated("the end of a combine before its results are read") || awaitPeers`}},
	{"", edit{"moe/adder.cuh", "  Mover::acquired();\n  return true;",
		`  if (mutated("the end of a combine before its results are read") && a.rank == 1) sleepNs(1000000);
  Mover::acquired();
  return true;`}},
	{"weights of another launch", edit{"moe/combine.cuh", "return in->tryRead(n, v); }",
		`return in->tryRead(n, v) || mutated("weights of another launch"); }`}},
}

// TestExperts runs the kernels of experts on ranks that drift apart, over routings of every kind, and then each of
// their protocols broken, with GOCCL_FULL=1: a broken run may last for minutes.
func TestExperts(t *testing.T) {
	t.Parallel()
	edits := append(editsOf(moeEdits), edit{"moe/stage.cuh", "extern __shared__ __align__(128) uint8_t stageMemory[];",
		"#define stageMemory ::bulk::dynamicShared()"})
	for _, e := range bulkEdits {
		if e.file == "goccl/bulk.cuh" {
			edits = append(edits, e)
		}
	}
	headers := brokenHeaders(t, []string{"goccl/bulk.cuh", "moe/memory.cuh", "moe/warps.cuh", "moe/notify.cuh",
		"moe/plain.cuh", "moe/dispatch.cuh", "moe/receive.cuh", "moe/combine.cuh", "moe/stage.cuh", "moe/gather.cuh",
		"moe/adder.cuh"}, edits)
	program := buildSanitized(t, "moe", "-I"+headers)
	works(t, program)
	if setting.Lenient().Full != "" {
		if out, ok := run(t, program, "nothing"); !ok { // else a slow machine may pass for a broken line
			t.Fatalf("as it is, with the waits of broken runs:\n%s", out)
		}
		notices(t, program, moeEdits)
	}
}
