package doctest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// variables matches the variables that each kind of source reads, by file name suffix. The first group of a pattern is
// the name.
var variables = map[string]*regexp.Regexp{
	".go":      regexp.MustCompile(`"((?:GO|N)CCL_[A-Z_]+)"`),
	".c":       regexp.MustCompile(`getenv\("((?:GO|N)CCL_[A-Z_]+)"`),
	".py":      regexp.MustCompile(`(?:environ\.get\(|environ\[|getenv\(|\bget\()"((?:GO|N)CCL_[A-Z_]+)"`),
	".sh":      regexp.MustCompile(`\$\{?((?:GO|N)CCL_[A-Z_]+)`),
	"Makefile": regexp.MustCompile(`\$\{?((?:GO|N)CCL_[A-Z_]+)`),
}

// elsewhere lists directories that name variables without reading them, and directories that do not contain goccl's
// sources.
var elsewhere = []string{"build", "cmd/goccl/internal/doctor", "cmd/goccl/internal/perf", "python/build",
	"python/tests", "python/examples"}

// ignoredList names NCCL's variables that goccl warns of and does not read.
var ignoredList = filepath.Join("capi", "internal", "core", "ignored.go")

// readVariables is every variable that a source reads, with one file that does. Tests' own variables are left out, but
// for the one that users set.
func readVariables(t *testing.T, root string) map[string]string {
	read := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			for _, e := range elsewhere {
				if rel == filepath.FromSlash(e) {
					return filepath.SkipDir
				}
			}
			if rel != "." && strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), "test") || d.Name() == "testdata" &&
				!strings.HasPrefix(rel, "capi") {
				return filepath.SkipDir
			}
			return nil
		}
		kind := filepath.Ext(path)
		if kind == "" {
			kind = d.Name()
		}
		pattern := variables[kind]
		if pattern == nil || rel == ignoredList || strings.HasPrefix(rel, filepath.Join("capi", "testdata")) &&
			kind != ".sh" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range pattern.FindAllSubmatch(text, -1) {
			if name := string(m[1]); !strings.HasSuffix(path, "_test.go") || name == "GOCCL_FULL" {
				read[name] = rel
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// rows returns the variables in the first columns of the tables of a section, from its heading to the next.
func rows(t *testing.T, page, heading string) map[string]bool {
	t.Helper()
	_, section, ok := strings.Cut(page, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/environment.md has no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	names := map[string]bool{}
	for line := range strings.SplitSeq(section, "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range regexp.MustCompile("`([A-Z][A-Z_0-9]+[*…]?)`").FindAllStringSubmatch(cells[1], -1) {
				names[m[1]] = true
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("docs/environment.md has no table under %q", heading)
	}
	return names
}

func environmentPage(t *testing.T) (root, page string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "environment.md"))
	if err != nil {
		t.Fatal(err)
	}
	return root, string(text)
}

// Every variable of goccl that a source reads is documented, and no other.
func TestEnvironmentIsDocumented(t *testing.T) {
	root, page := environmentPage(t)
	read := readVariables(t, root)
	documented := map[string]bool{}
	for _, heading := range []string{"## goccl's own", "## Of the C ABI (`libnccl.so.2`, `libgoccl.so`) and Python",
		"## For tests and measurements"} {
		for name := range rows(t, page, heading) {
			documented[name] = true
		}
	}
	// Variables between two programs of goccl itself, and of a test that make starts.
	internal := map[string]bool{"GOCCL_PERF_TERMINAL": true, "GOCCL_TUTORIAL_MAIN": true}
	for name, file := range read {
		if strings.HasPrefix(name, "GOCCL_") && !documented[name] && !internal[name] {
			t.Errorf("%s (%s) is not in docs/environment.md", name, file)
		}
	}
	for name := range documented {
		if _, ok := read[name]; strings.HasPrefix(name, "GOCCL_") && !ok {
			t.Errorf("docs/environment.md documents %s, which nothing reads", name)
		}
	}
	// doctor reports variables that it does not know as misspelt.
	doctor, err := os.ReadFile(filepath.Join(root, "cmd", "goccl", "internal", "doctor", "environment.go"))
	if err != nil {
		t.Fatal(err)
	}
	forTests := rows(t, page, "## For tests and measurements")
	for name := range documented {
		if strings.HasPrefix(name, "GOCCL_") && !forTests[name] && !strings.Contains(string(doctor), `"`+name+`":`) {
			t.Errorf("cmd/goccl/internal/doctor/environment.go does not know %s", name)
		}
	}
}

// NCCL's variables that the page lists as honoured are read, and the others are not.
func TestNCCLVariablesAreAsDocumented(t *testing.T) {
	root, page := environmentPage(t)
	read := readVariables(t, root)
	honoured, ignored := rows(t, page, "### Honoured"), rows(t, page, "### Ignored")
	// NCCL_TESTS is a directory argument of bench/gpu.sh. NCCL_NVLS_ENABLE is only passed on: goccl has no multicast.
	notOurs := map[string]bool{"NCCL_TESTS": true, "NCCL_NVLS_ENABLE": true}
	for name, file := range read {
		if strings.HasPrefix(name, "NCCL_") && !honoured[name] && !notOurs[name] {
			t.Errorf("%s reads %s, which docs/environment.md does not call honoured", file, name)
		}
	}
	for name := range honoured {
		if _, ok := read[name]; !ok && !notOurs[name] {
			t.Errorf("docs/environment.md calls %s honoured; nothing reads it", name)
		}
	}
	list, err := os.ReadFile(filepath.Join(root, ignoredList))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"(NCCL_[A-Z0-9_]+)"`).FindAllSubmatch(list, -1) {
		if name := string(m[1]); !slices.ContainsFunc(slices.Collect(maps.Keys(ignored)), func(row string) bool {
			prefix, wild := strings.CutSuffix(row, "*")
			return row == name || strings.HasSuffix(name, "_") && strings.HasPrefix(row, name) || wild &&
				strings.HasPrefix(name, prefix)
		}) {
			t.Errorf("%s warns of %s, which docs/environment.md does not call ignored", ignoredList, name)
		}
	}
	for name := range ignored {
		if _, ok := read[name]; ok {
			t.Errorf("docs/environment.md calls %s ignored; %s reads it", name, read[name])
		}
		if honoured[name] {
			t.Errorf("docs/environment.md has %s twice", name)
		}
	}
}

// Every launcher variable that joining reads is on the page, by its name or by a family like SLURM_*.
func TestLaunchersAreDocumented(t *testing.T) {
	root, page := environmentPage(t)
	_, section, ok := strings.Cut(page, "\n## Of launchers\n")
	if !ok {
		t.Fatal("docs/environment.md says nothing of launchers")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	text, err := os.ReadFile(filepath.Join(root, "bootstrap", "env.go"))
	if err != nil {
		t.Fatal(err)
	}
	var families []string
	for _, m := range regexp.MustCompile("`([A-Z][A-Z0-9_]*_)\\*`").FindAllStringSubmatch(section, -1) {
		families = append(families, m[1])
	}
	found := 0
	for _, m := range regexp.MustCompile(`"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|RANK)"`).FindAllStringSubmatch(string(text),
		-1) {
		name := m[1]
		found++
		if strings.HasPrefix(name, "GOCCL_") || strings.Contains(section, "`"+name+"`") ||
			slices.ContainsFunc(families, func(f string) bool { return strings.HasPrefix(name, f) }) {
			continue
		}
		t.Errorf("bootstrap/env.go looks at %s, which docs/environment.md does not name", name)
	}
	if found < 20 {
		t.Errorf("only %d variables were found in bootstrap/env.go: this test reads it no more", found)
	}
}
