package hosttest

import "testing"

// oneSidedEdits break kernels/onesided/onesided.cuh when the program is called with their names.
var oneSidedEdits = []breakage{
	{"signal before the copy", edit{"onesided/onesided.cuh", "  copyBytes(a.dst,",
		`  if (mutated("signal before the copy") && threadIdx.x == 0 && a.word != nullptr) raise(a.word, a.sent);
  copyBytes(a.dst,`}},
	{"", edit{"onesided/onesided.cuh", "  raise(a.word, a.sent);\n}",
		`  if (!mutated("signal before the copy")) raise(a.word, a.sent);
}`}},
	{"no barrier", edit{"onesided/onesided.cuh", "  meet();", `  if (!mutated("no barrier")) meet();`}},
	{"the mark ignored", edit{"onesided/onesided.cuh", "a.mark != nullptr &&",
		`a.mark != nullptr && !mutated("the mark ignored") &&`}},
	{"the mark before", edit{"onesided/onesided.cuh", "(loadAcquire<Scope::sys>(a.mark) - a.copies) >= 0",
		`(loadAcquire<Scope::sys>(a.mark) - a.copies) >= (mutated("the mark before") ? -1 : 0)`}},
	{"signal after an abort", edit{"onesided/onesided.cuh", "a.peer) != statusOk) return;",
		`a.peer) != statusOk && !mutated("signal after an abort")) return;`}},
	{"no turns", edit{"onesided/onesided.cuh", "[&] { return loadAcquire<Scope::gpu>(&sent->stored) == before; }",
		`[&] { return mutated("no turns") || loadAcquire<Scope::gpu>(&sent->stored) == before; }`}},
	{"not used up", edit{"onesided/onesided.cuh", "fetchAddRelaxed<Scope::gpu>(w.used, uint64_t{w.count}) + w.count",
		`fetchAddRelaxed<Scope::gpu>(w.used, uint64_t{mutated("not used up") ? 0 : w.count}) + w.count`}},
}

// TestOneSided runs puts, signals and waits of several streams, and then each part broken.
func TestOneSided(t *testing.T) {
	t.Parallel()
	headers := brokenHeaders(t, []string{"onesided/onesided.cuh"}, editsOf(oneSidedEdits))
	program := buildSanitized(t, "onesided", "-I"+headers)
	works(t, program)
	notices(t, program, oneSidedEdits)
}
