package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestArguments finds the tests that -short shortens: by themselves, through functions of their package and of others,
// and in folders below the given one. Tests of which a run under the race detector is whole are not among them.
func TestArguments(t *testing.T) {
	t.Chdir(t.TempDir())
	for path, text := range map[string]string{
		"test/help/help.go": `package help
			func Build() { build() }
			func build() { if testing.Short() { panic("short") } }
			func Other() {}`,
		"a/a_test.go": `package a
			func TestMain(m *testing.M) { testing.Short() }
			func TestDirect(t *testing.T) { if !testing.Short() { more() } }
			func TestByAFunction(t *testing.T) { sizes() }
			func TestWhole(t *testing.T) { more(); help.Other() }
			func more() {}`,
		"a/b_test.go":   `package a_test; func sizes() { if rounds() > 1 {} }; func rounds() int { return short() }`,
		"a/c_test.go":   `package a; func short() int { if testing.Short() { return 1 }; return 2 }`,
		"a/d/d_test.go": `package d; func TestByHelp(t *testing.T) { help.Build() }`,
		"a/d/e_test.go": `package d; func TestAllocations(t *testing.T) { if n != 0 && commtest.Slowness == 1 { t.Fail() } }
			func TestOnMockFew(t *testing.T) { if n != 0 && commtest.Slowness == 1 { t.Fail() } }
			func TestFew(t *testing.T) { if commtest.Slowness > 1 { t.Skip() } }
			func TestPatient(t *testing.T) { wait(2 * commtest.Slowness) }`,
		"a/testdata/x_test.go": `package x; func TestNone(t *testing.T) { testing.Short() }`,
		"b/b_test.go":          `package b; func TestElsewhere(t *testing.T) { testing.Short() }`,
		"c/c_test.go":          `package c; func TestWhole(t *testing.T) {}`,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := arguments([]string{"a", "c"})
	want := []string{"-run",
		"'^(TestAllocations|TestByAFunction|TestByHelp|TestDirect|TestFew|TestMock|TestOnMockFew)$'", "./a", "./a/d"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := arguments([]string{"c"}); err == nil {
		t.Errorf("no test is shorter, and again prints %v", got)
	}
}
