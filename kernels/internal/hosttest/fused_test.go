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
const fusedAlways = 9

var fusedEdits = []mutation{
	{"", "", edit{"fused/packets.cuh", "    if (all) break;\n", "    if (polled(all)) break;\n"}},
	{"", "", edit{"fused/packets.cuh", "return fetchAll(slot, places, v);", "return polled(fetchAll(slot, places, v));"}},
	{"", "", edit{"fused/packets.cuh", "storePacket(reinterpret_cast<uint4*>(slot) + vector, packet);",
		`uint2* const halves = reinterpret_cast<uint2*>(slot) + 2 * vector; // which others may see apart
  static thread_local uint32_t stores = 0;
  storePacket(halves, make_uint2(packet.x, packet.y));
  if (++stores % 4 == 0) polled(false);
  storePacket(halves + 1, make_uint2(packet.z, packet.w));`}},
	{"one area", "drifting", edit{"fused/packets.cuh", "area(number % areas)",
		`area(mutated("one area") ? 0 : number % areas)`}},
	{"cleared ones too", "late", edit{"fused/packets.cuh", "((1u << count) - 1) << first;",
		`((1u << count) - 1) << first | (mutated("cleared ones too") ? (1u << first) - 1 : 0);`}},
	{"one part of a row", "late", edit{"fused/all_reduce.cuh", "const Places<T, G> places(a, index, first);",
		`const Places<T, G> places(a, index, mutated("one part of a row") ? 0 : first);`}},
	{"not cleared", "drifting", edit{"fused/packets.cuh", "clearAll(slot(first + i), places);",
		`if (!mutated("not cleared")) clearAll(slot(first + i), places);`}},
	{"results not cleared", "drifting", edit{"fused/packets.cuh", "if (s == statusOk) clearAll(",
		`if (s == statusOk && !mutated("results not cleared")) clearAll(`}},
	{"pass not kept", "drifting", edit{"fused/packets.cuh", "if (threadIdx.x == 0) a.passes[",
		`if (threadIdx.x == 0 && !mutated("pass not kept")) a.passes[`}},
	{"data like no packet", "mixed", edit{"collective/lamport.cuh", "p.x += p.x == 0;",
		`if (!mutated("data like no packet")) p.x += p.x == 0;`}},
	{"half a packet", "drifting", edit{"collective/lamport.cuh", "return packet.x != 0 && packet.z != 0;",
		`return packet.x != 0 && (packet.z != 0 || mutated("half a packet"));`}},
	{"one fold for all", "mixed", edit{"fused/row.cuh", "words + (number++ & 1)",
		`words + (mutated("one fold for all") ? 0 : number++ & 1)`}},
	{"no rank order", "mixed", edit{"fused/all_reduce.cuh", "if (peer == a.rank) addOwn();",
		`if (peer == (mutated("no rank order") && a.rank == 2 ? 1 : a.rank)) addOwn();`}},
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
	paths = append(paths, "collective/lamport.cuh")
	program := buildSanitized(t, "fused", "-I"+brokenHeaders(t, paths, mutationEdits(fusedEdits)))
	for _, name := range []string{"mixed", "drifting", "late", "aborted"} {
		t.Run(name, func(t *testing.T) {
			if out, ok := run(t, program, name); !ok {
				t.Fatalf("as it is:\n%s", out)
			}
			for i, m := range fusedEdits {
				if i >= fusedAlways && setting.Lenient().Full == "" {
					break
				}
				if slices.Contains(strings.Fields(m.programs), name) && !caught(t, program, always(name, m.name)) {
					t.Errorf("broken (%s), it passes", m.name)
				}
			}
		})
	}
}
