package archtest

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that uses the library gets no module of others but golang.org/x/sys: metrics and the tool have theirs for
// themselves.
func TestModulesOfTheLibrary(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".", "./capi", "./primitive",
		"./plan/dsl")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range strings.Fields(string(out)) {
		if m != Module && m != "golang.org/x/sys" && !seen[m] {
			t.Errorf("the library imports packages of %s", m)
		}
		seen[m] = true
	}
	if !seen[Module] {
		t.Errorf("go list names no package of goccl: %v", seen)
	}
}
