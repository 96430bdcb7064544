package archtest

import "strings"

// Module is the prefix of the import path of every package of the project.
const Module = "github.com/goccl/goccl"

// layer is one layer of the design: packages named by their path inside the module. An entry ending in "/..." covers
// everything below it.
type layer struct {
	name     string
	packages []string
}

// house lists the layers from the bottom up. A package may import from its own layer and from lower ones, never from a
// higher one. The longest matching entry decides, so that a directory and one of its subdirectories may belong to
// different layers.
var house = []layer{
	{"ground", []string{
		"datatype", "internal/...", "plan/...", "test/archtest", "test/badnet", "test/leak",
		"test/mockcuda", "test/mutant", "test/mutate/...", "test/testutil",
	}},
	{"device", []string{"device/...", "kernels/...", "plan/dsl", "plan/programs", "plan/synth", "test/plans"}},
	{"transport", []string{"test/nettest", "transport/..."}},
	{"job", []string{"job/...", "test/netfake"}},
	{"memory", []string{"job/share"}},
	{"primitives", []string{"primitive/..."}},
	{"collectives", []string{"collective/..."}},
	{"watch", []string{"watch/..."}},
	{"engines", []string{"engine/..."}},
	{"executor", []string{"plan/executor/..."}},
	{"goccl", []string{"."}},
	{"doors", []string{"capi/...", "cmd/...", "python/...", "test/...", "tools/...", "watch/metrics"}},
	{"lessons", []string{"examples/...", "bench/..."}},
}

// cgoAllowed names the only packages that may import "C".
var cgoAllowed = []string{"internal/driver/...", "capi/...", "transport/ib/..."}

// pure names the packages that do no I/O, use no device and start no goroutine.
var pure = []string{"plan", "plan/dsl", "plan/fabric", "plan/internal/...", "test/interp", "plan/programs",
	"plan/simulate", "plan/symmetry", "plan/synth", "plan/verify", "test/plans"}

// impure names the imports that a pure package may not have.
var impure = []string{"C", "net/...", "os/...", "os", "net", "syscall", "golang.org/x/sys/...", Module + "/device/...",
	Module + "/job/...",
	Module + "/internal/driver/..."}

// matches reports whether an entry of one of the tables covers path.
func matches(entry, path string) bool {
	if base, ok := strings.CutSuffix(entry, "/..."); ok {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return entry == path
}

func anyMatches(entries []string, path string) bool {
	for _, e := range entries {
		if matches(e, path) {
			return true
		}
	}
	return false
}

// floor returns the index in house of the package at path (inside the module), or -1 when no entry covers it.
func floor(path string) int {
	best, at := -1, -1
	for i, l := range house {
		for _, e := range l.packages {
			if matches(e, path) && len(e) > best {
				best, at = len(e), i
			}
		}
	}
	return at
}

// inside returns the path of an import inside the module: "." for the root package. ok is false for packages of other
// modules.
func inside(importPath string) (path string, ok bool) {
	if importPath == Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}
