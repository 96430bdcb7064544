package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommittedBuildsAreOfTheseSources needs no compiler: it compares hashes. `build -check` compares the images as
// well.
func TestCommittedBuildsAreOfTheseSources(t *testing.T) {
	groups, err := findGroups("../../kernels")
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) < 2 {
		t.Fatalf("%d groups", len(groups))
	}
	for _, g := range groups {
		old := g.committed()
		if old.hash != g.hash || !old.complete {
			t.Errorf("kernels/%s was not rebuilt after its sources changed: "+
				"run `go generate ./kernels` and commit the result", g.name)
		}
		if old.compiler == "" {
			t.Errorf("kernels/%s does not say what compiled it", g.name)
		}
	}
	if err := writeIndex("../../kernels", groups, true); err != nil {
		t.Error(err)
	}
}

// TestPick gives every group its part of the random numbers, and a larger group a smaller one.
func TestPick(t *testing.T) {
	root := tree(t, map[string]string{"a/a_sm90.cubin": strings.Repeat("x", 400),
		"b/b_sm90.cubin": strings.Repeat("x", 100)})
	var groups []*group
	for _, name := range []string{"a", "b", "new"} {
		groups = append(groups, &group{name: name, dir: filepath.Join(root, name)})
	}
	var found [3]int
	for i := range 1150 { // 1/20 : 1/10 : 1
		found[pick(groups, float64(i)/1150)]++
	}
	for i, want := range []int{50, 100, 1000} {
		if found[i] < want-1 || found[i] > want+1 {
			t.Errorf("group %d is chosen %d times of 1,150, want %d", i, found[i], want)
		}
	}
}

// tree makes a kernels folder from file names and texts.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func hashes(t *testing.T, files map[string]string) map[string]string {
	t.Helper()
	groups, err := findGroups(tree(t, files))
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, g := range groups {
		out[g.name] = g.hash
	}
	return out
}

// The hash of a group changes with every file that its unit can reach, however deep, and with no other.
func TestHashFollowsIncludes(t *testing.T) {
	base := map[string]string{
		"include/goccl/a.cuh": "#include <goccl/b.cuh>\n",
		"include/goccl/b.cuh": "// b\n",
		"include/goccl/c.cuh": "// c\n",
		"one/k.cu":            "#include <goccl/a.cuh>\n  #  include \"two/shared.cuh\"\n",
		"two/k.cu":            "#include <goccl/c.cuh>\n",
		"two/shared.cuh":      "// shared\n",
	}
	before := hashes(t, base)
	if len(before) != 2 {
		t.Fatalf("groups %v: want one and two", before)
	}
	for file, want := range map[string][2]bool{ // does the hash of one, of two, change
		"include/goccl/b.cuh": {true, false}, "include/goccl/c.cuh": {false, true}, "two/shared.cuh": {true, false},
		"one/k.cu": {true, false}, "two/k.cu": {false, true},
	} {
		changed := make(map[string]string)
		for k, v := range base {
			changed[k] = v
		}
		changed[file] += "// comments and\n\n   // empty lines do not count\n"
		if after := hashes(t, changed); after["one"] != before["one"] || after["two"] != before["two"] {
			t.Errorf("a comment in %s changes a hash", file)
		}
		changed[file] += "int more;\n"
		after := hashes(t, changed)
		if got := [2]bool{after["one"] != before["one"], after["two"] != before["two"]}; got != want {
			t.Errorf("%s changes the hashes of one, two: %v: want %v", file, got, want)
		}
	}
	withNew := make(map[string]string)
	for k, v := range base {
		withNew[k] = v
	}
	withNew["one/another.cu"] = ""
	if after := hashes(t, withNew); after["one"] == before["one"] {
		t.Error("a new source leaves the hash as it was")
	}
}

func TestFindRoot(t *testing.T) {
	if _, err := findRoot(t.TempDir()); err == nil {
		t.Skip("the working directory itself is a root")
	}
	root := tree(t, map[string]string{"include/goccl/a.cuh": ""})
	if got, err := findRoot(root); err != nil || !strings.HasSuffix(got, filepath.Base(root)) {
		t.Errorf("findRoot = %q, %v: want %q", got, err, root)
	}
}
