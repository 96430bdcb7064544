package archtest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ours lists the modules that a program which imports the library depends on. The modules of tests and of the tool are
// not among them.
var ours = []string{"golang.org/x/sys"}

// required reads go.mod: modules by path, and whether each is marked indirect.
func required(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(f) >= 2 && strings.HasPrefix(f[1], "v") && strings.Contains(f[0], ".") {
			out[f[0]] = strings.HasSuffix(strings.TrimSpace(line), "// indirect")
		}
	}
	return out
}

// moduleOf returns the required module of an import; empty for the standard library and for goccl itself.
func moduleOf(modules map[string]bool, path string) string {
	best := ""
	for m := range modules {
		if (path == m || strings.HasPrefix(path, m+"/")) && len(m) > len(best) {
			best = m
		}
	}
	return best
}

// go.mod agrees with the imports: a module is marked indirect if and only if no package here imports it.
func TestRequirementsAreThoseOfImports(t *testing.T) {
	modules, used := required(t), map[string]bool{}
	if len(modules) < 4 {
		t.Fatalf("go.mod requires %v: it is not read right", slices.Sorted(maps.Keys(modules)))
	}
	for _, p := range list(t) {
		path, _ := inside(p.ImportPath)
		library := floor(path) <= floor(".")
		for _, file := range slices.Concat(p.sources(), p.TestGoFiles, p.XTestGoFiles) {
			for _, imp := range imports(t, filepath.Join(p.Dir, file)) {
				m := moduleOf(modules, imp)
				if m == "" {
					continue
				}
				used[m] = true
				if library && !strings.HasSuffix(file, "_test.go") && !slices.Contains(ours, m) {
					t.Errorf("%s/%s imports %s: users of the library would get %s, and only %v is worth that", path, file, imp,
						m, ours)
				}
			}
		}
	}
	for m, indirect := range modules {
		if indirect == used[m] {
			t.Errorf("go.mod: %s is marked indirect: %v, imported: %v; run go mod tidy", m, indirect, used[m])
		}
	}
}
