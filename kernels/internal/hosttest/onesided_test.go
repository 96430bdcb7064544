package hosttest

import "testing"

// oneSidedEdits break kernels/onesided/onesided.cuh when the program is called with their names.
var oneSidedEdits = []breakage{
	{"signal before the copy", edit{"onesided/onesided.cuh", "  copyBytes(a.dst,",
		`  if (mutated("signal before the copy") && threadIdx.x == 0) raise(a.word, a.sent);
  copyBytes(a.dst,`}},
	{"", edit{"onesided/onesided.cuh", "  if (blockIdx.x == 0 && threadIdx.x == 0) raise(a.word, a.sent);\n}",
		`  if (!mutated("signal before the copy") && threadIdx.x == 0) raise(a.word, a.sent);
}`}},
	{"no turns", edit{"onesided/onesided.cuh", "[&] { return loadAcquire<Scope::gpu>(&sent->stored) == before; }",
		`[&] { return mutated("no turns") || loadAcquire<Scope::gpu>(&sent->stored) == before; }`}},
	{"stores not counted", edit{"onesided/onesided.cuh", "+ loadAcquire<Scope::sys>(w.word + a.stores)",
		`+ (mutated("stores not counted") ? 0 : loadAcquire<Scope::sys>(w.word + a.stores))`}},
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
