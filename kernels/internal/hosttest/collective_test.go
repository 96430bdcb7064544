package hosttest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var reShared = regexp.MustCompile(`__shared__ (\w+) (\w+)\[(\w+)\];`)

// editable reads the headers that edits change, by the name that #include uses, with shared memory as the emulation has
// it.
func editable(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../collective/*.cuh")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d headers, %v", len(paths), err)
	}
	paths = append(paths, "../../include/goccl/packet.cuh", "../../include/goccl/pipe.cuh", "../../include/goccl/bulk.cuh")
	texts := make(map[string]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
		texts[name] = reShared.ReplaceAllString(string(text), "$1* $2 = static_cast<$1*>(sharedMemory(sizeof($1) * ($3)));")
	}
	return texts
}

// collectiveHeaders writes a copy of the headers for the emulation and returns the folder to include from.
func collectiveHeaders(t *testing.T) string {
	t.Helper()
	return editedHeaders(t, sizes, slices.Concat(unordered, mutationEdits(mutations)))
}

// editedHeaders is collectiveHeaders with any sizes and edits.
func editedHeaders(t *testing.T, sizes []size, edits []edit) string {
	t.Helper()
	texts := editable(t)
	for _, z := range sizes {
		re := regexp.MustCompile(`constexpr uint32_t ` + z.name + ` = [^;]+;`)
		if n := len(re.FindAllString(texts[z.file], -1)); n != 1 {
			t.Fatalf("%s defines %s %d times: want it once; bring mutations_test.go up to date", z.file, z.name, n)
		}
		texts[z.file] = re.ReplaceAllString(texts[z.file], "constexpr uint32_t "+z.name+" = "+z.value+";")
	}
	for _, e := range edits {
		if n := strings.Count(texts[e.file], e.old); n != 1 {
			t.Fatalf("%s has %q %d times: want it once; bring mutations_test.go up to date", e.file, e.old, n)
		}
		texts[e.file] = strings.Replace(texts[e.file], e.old, e.new, 1)
	}
	return written(t, texts)
}

func mutationEdits(all []mutation) (edits []edit) {
	for _, m := range all {
		edits = append(edits, m.edit)
	}
	return edits
}

// TestCollectives runs the collective kernels on ranks that drift apart, and then each of their protocols broken.
func TestCollectives(t *testing.T) {
	t.Parallel()
	program := buildSanitized(t, "collective", "-I"+collectiveHeaders(t))
	names := []string{"reduce", "move", "messages", "no-counts", "device-counts", "wrong-counts", "outside-counts",
		"streams", "ring", "ring-aborted", "fold", "fold-aborted", "direct", "direct-aborted", "tickets", "lamport", "many"}
	ordered := []string{"streams", "ring", "fold", "direct", "tickets"} // need their acquires and releases
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if out, ok := run(t, program, name); !ok {
				t.Fatalf("as it is:\n%s", out)
			}
			for _, m := range mutations {
				if slices.Contains(strings.Fields(m.programs), name) && !caught(t, program, always(name, m.name)) {
					t.Errorf("broken (%s), it passes", m.name)
				}
			}
			for _, order := range []string{"acquire", "release"} {
				if slices.Contains(ordered, name) && !caught(t, program, always(name, order)) {
					t.Errorf("with relaxed %s it passes", order)
				}
			}
		})
	}
}

// caught says whether a broken program fails, with the arguments of each try. That is a matter of timing: of some
// mutations half of the runs pass.
func caught(t *testing.T, program string, args func() []string) bool {
	t.Helper()
	for range 24 {
		a := args()
		if out, ok := runSanitized(t, "symbolize=0", program, a...); !ok {
			if testing.Verbose() {
				fmt.Printf("%v: %.300s\n", a, strings.ReplaceAll(out, "\n", "\n\t"))
			}
			return true
		}
	}
	return false
}

// always gives every try the same arguments.
func always(args ...string) func() []string { return func() []string { return args } }
