package hosttest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/internal/setting"
)

// fusedEdits break kernels/fused when the program is called with their names. Each of its programs must notice. Edits
// without a name let other threads run. The first fusedAlways always run, the others with GOCCL_FULL=1.
const fusedAlways = 7

var fusedEdits = []mutation{
	{"", "", edit{"fused/packets.cuh", "        return all;\n", "        return polled(all);\n"}},
	{"", "", edit{"fused/packets.cuh", "return fetchAll(slot, places, v);", "return polled(fetchAll(slot, places, v));"}},
	{"", "", edit{"fused/packets.cuh", "storePacket(reinterpret_cast<uint4*>(slot) + vector, v);",
		`uint2* const halves = reinterpret_cast<uint2*>(slot) + 2 * vector; // which others may see apart
  static thread_local uint32_t stores = 0;
  storePacket(halves, make_uint2(v.x, v.y));
  if (++stores % 4 == 0) polled(false);
  storePacket(halves + 1, make_uint2(v.z, v.w));`}},
	{"two areas", "drifting", edit{"fused/packets.cuh", "area + 1 == areas ?",
		`area + 1 == areas - mutated("two areas") ?`}},
	{"not cleared", "drifting", edit{"fused/packets.cuh", "const uint32_t n = used[half];",
		`const uint32_t n = mutated("not cleared") ? 0 : used[half];`}},
	{"results not cleared", "drifting", edit{"fused/packets.cuh", "half < 2; ++half)",
		`half < 2u - mutated("results not cleared"); ++half)`}},
	{"cleared as much as now", "mixed", edit{"fused/packets.cuh", "state->used[0] = inputs;",
		`state->used[0] = mutated("cleared as much as now") ? 1 : inputs;`}},
	{"area not kept", "drifting", edit{"fused/packets.cuh", "state->area = area;",
		`if (!mutated("area not kept")) state->area = area;`}},
	{"data like no packet", "mixed", edit{"fused/packets.cuh", "v.x = v.x == absent ?",
		`v.x = v.x == absent && !mutated("data like no packet") ?`}},
	{"own data as it is", "mixed", edit{"fused/packets.cuh", "v.z = v.z == absent ?",
		`v.z = v.z == absent && !mutated("own data as it is") ?`}},
	{"half a packet", "drifting", edit{"fused/packets.cuh", "&& v.z != absent;",
		`&& (v.z != absent || mutated("half a packet"));`}},
	{"one fold for all", "mixed", edit{"fused/row.cuh", "words + (number++ & 1)",
		`words + (mutated("one fold for all") ? 0 : number++ & 1)`}},
	{"no rank order", "mixed", edit{"fused/all_reduce.cuh", "r == a.rank ? sendable(own[k / V].v[k % V]) : v[k];",
		`mutated("no rank order") && r < 2 && a.nranks > 2 ? (a.rank == 1 - r ? sendable(own[k / V].v[k % V]) : v[k]) ` +
			`: r == a.rank ? sendable(own[k / V].v[k % V]) : v[k];`}},
}

// TestFused runs the fused all-reduces against a plain twin, over random shapes, types and quantisations, on ranks that
// drift apart, and then each of their protocols broken.
func TestFused(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../fused/*.cuh")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d headers, %v", len(paths), err)
	}
	for i, path := range paths {
		paths[i] = "fused/" + filepath.Base(path)
	}
	program := buildSanitized(t, "fused", "-I"+brokenHeaders(t, paths, mutationEdits(fusedEdits)))
	for _, name := range []string{"mixed", "drifting", "aborted"} {
		t.Run(name, func(t *testing.T) {
			if out, ok := run(t, program, name); !ok {
				t.Fatalf("as it is:\n%s", out)
			}
			for i, m := range fusedEdits {
				if i >= fusedAlways && setting.Lenient().Full == "" {
					break
				}
				if slices.Contains(strings.Fields(m.programs), name) && !caught(t, program, name, m.name) {
					t.Errorf("broken (%s), it passes", m.name)
				}
			}
		})
	}
}
