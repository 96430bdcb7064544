package hosttest

import (
	"testing"

	"github.com/goccl/goccl/internal/setting"
)

// moeEdits break the kernels of experts when the program is called with their names. Each must be noticed.
var moeEdits = []breakage{
	{"flag before the rows", edit{"moe/dispatch.cuh", "    mover.settle();\n",
		`    if (!mutated("flag before the rows")) mover.settle();
`}},
	{"flag before the results", edit{"moe/combine.cuh", "    mover.settle();\n",
		`    if (!mutated("flag before the results")) mover.settle();
`}},
	{"flag before the piece", edit{"moe/dispatch.cuh", "    publish();\n    sent = piece;\n",
		`    if (!mutated("flag before the piece")) publish();
    sent = piece;
    if (mutated("flag before the piece") && laneOf() == 0) tellPiece(a, gone, piece + part.of, n);
`}},
	{"a row before the one before has left", edit{"moe/stage.cuh", "      copies.perform(memory);\n      copyVectors",
		`      if (!mutated("a row before the one before has left")) copies.perform(memory);
      copyVectors`}},
	{"stores before the lists", edit{"moe/stage.cuh", "    fenceProxyAsync();\n#endif\n    __syncwarp();",
		`    fenceProxyAsync();
#endif
    if (!mutated("stores before the lists")) __syncwarp();`}},
	{"ranks in ascending order", edit{"moe/notify.cuh",
		"const int64_t x = expertOf(a, a.index[static_cast<uint64_t>(token) * a.topK + k]);\n",
		`const int64_t x = expertOf(a, a.index[static_cast<uint64_t>(token) * a.topK +
                                          (mutated("ranks in ascending order") ? a.topK - 1 - k : k)]);
`}},
	{"piece of another launch", edit{"moe/warps.cuh", "loadAcquire<Scope::sys>(word) == n; }",
		`loadAcquire<Scope::sys>(word) == n || mutated("piece of another launch"); }`}},
	{"does not wait for the end", edit{"moe/memory.cuh", "(loadAcquire<Scope::sys>(word) - (n - 1)) >= 0",
		`(loadAcquire<Scope::sys>(word) - (n - 1)) >= (mutated("does not wait for the end") ? -1 : 0)`}},
	{"", edit{"moe/receive.cuh", "  const Target to(a, source);\n  const uint32_t tokens",
		`  if (mutated("does not wait for the end") && a.rank == 1) sleepNs(3000000);
  const Target to(a, source);
  const uint32_t tokens`}},
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
	{"weights of another launch", edit{"moe/combine.cuh", "return in->tryRead(n, v); }",
		`return in->tryRead(n, v) || mutated("weights of another launch"); }`}},
}

// TestExperts runs the kernels of experts on ranks that drift apart, over routings of every kind, and then each of
// their protocols broken, with GOCCL_FULL=1: a broken run may last for minutes.
func TestExperts(t *testing.T) {
	t.Parallel()
	headers := brokenHeaders(t, []string{"moe/memory.cuh", "moe/warps.cuh", "moe/notify.cuh", "moe/dispatch.cuh",
		"moe/receive.cuh", "moe/combine.cuh", "moe/stage.cuh"}, editsOf(moeEdits))
	program := buildSanitized(t, "moe", "-I"+headers)
	works(t, program)
	if setting.Lenient().Full != "" {
		notices(t, program, moeEdits)
	}
}
