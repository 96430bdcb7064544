package hosttest

import "testing"

// wireEdits break kernels/hosts/wire.cuh and ring.cuh when the program is called with their names. Each must be
// noticed.
var wireEdits = []breakage{
	{"no credit", edit{"hosts/ring.cuh", "if (k - c.credit < a.slots) return",
		`if (mutated("no credit") || k - c.credit < a.slots) return`}},
	{"post before the copy", edit{"hosts/wire.cuh", "    copyChunk(ring.sendSlot(k) + header, item.at",
		`    if (mutated("post before the copy") && threadIdx.x == 0) ring.label(k, n), ring.post(k, n);
    copyChunk(ring.sendSlot(k) + header, item.at`}},
	{"any lap", edit{"hosts/ring.cuh", "loadAcquire<Scope::sys>(word) >= want; }",
		`loadAcquire<Scope::sys>(word) >= (mutated("any lap") ? 1 : want); }`}},
	{"free before the copy", edit{"hosts/wire.cuh", "    copyChunk(item.at + i * chunks.size,",
		`    if (mutated("free before the copy") && threadIdx.x == 0) ring.free(k), sleepNs(2000000);
    copyChunk(item.at + i * chunks.size,`}},
	{"does not follow", edit{"hosts/wire.cuh", "s == statusOk && r.moves == leads) {",
		`s == statusOk && r.moves == leads && !mutated("does not follow")) {`}},
	{"not counted", edit{"hosts/wire.cuh", "ring(me).counters().received += done;",
		`ring(me).counters().received += done - mutated("not counted");`}},
	{"passed is kept", edit{"hosts/wire.cuh", "if (r.moves == leads) storeRelaxed",
		`if (r.moves == leads && !mutated("passed is kept")) storeRelaxed`}},
	{"one of the host", edit{"hosts/wire.cuh", "Source{own + (q ^ local) * stride, whole}",
		`Source{own + (mutated("one of the host") ? 0 : (q ^ local) * stride), whole}`}},
	{"judges after a failure", edit{"hosts/ring.cuh", "    if (before != statusOk) return before;",
		`    if (before != statusOk && !mutated("judges after a failure")) return before;`}},
	{"sends after a failure", edit{"hosts/wire.cuh", "  if (threadIdx.x != 0) return false;",
		`  if (threadIdx.x != 0 || mutated("sends after a failure")) return false;`}},
	{"", edit{"hosts/wire.cuh", "    if (__syncthreads_or(threadIdx.x == 0 && ring.awaitCredit",
		`    if (mutated("passed is kept") && item.leads && i < a.lanes) sleepNs(3000000);
    if (__syncthreads_or(threadIdx.x == 0 && ring.awaitCredit`}},
}

// TestHosts runs the kernels between hosts over a network that delivers in any order, and then each of their protocols
// broken.
func TestHosts(t *testing.T) {
	t.Parallel()
	headers := brokenHeaders(t, []string{"hosts/wire.cuh", "hosts/ring.cuh"}, editsOf(wireEdits))
	program := buildSanitized(t, "hosts", "-I"+headers)
	works(t, program)
	notices(t, program, wireEdits)
}
