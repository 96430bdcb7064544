package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv("LINT_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

const bad = `package plan

import (
	"fmt"
	"os"
)

// F is what no linter should like: we recieve it so.
func F() int {
	x := 1
	x = 2
	os.Remove("a file")
	fmt.Printf("%d\n", "a number")
	return x
}

func unused() {
	for true {
	}
}
`

// Every linter reports something in a file that violates every rule.
func TestEveryLinter(t *testing.T) {
	settings, err := os.ReadFile("../../.golangci.yaml")
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	if err := os.Mkdir(filepath.Join(module, "plan"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module bad\n\ngo 1.26\n", ".golangci.yaml": string(settings),
		"plan/bad.go": bad} {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	built, err := exec.Command("go", "env", "GOCACHE").Output() // otherwise it would depend on XDG_CACHE_HOME
	if err != nil {
		t.Fatal(err)
	}
	lint := func() (string, error) {
		cmd := exec.Command(os.Args[0], "./...")
		cmd.Dir = module
		cmd.Env = append(os.Environ(), "LINT_TEST_MAIN=1", "XDG_CACHE_HOME="+filepath.Join(module, "cache"),
			"GOCACHE="+strings.TrimSpace(string(built)))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := lint()
	if err == nil {
		t.Error("lint is content")
	}
	for _, name := range []string{"depguard", "errcheck", "printf", "ineffassign", "misspell", "SA", "S1", "U1000"} {
		if !strings.Contains(out, "("+name) {
			t.Errorf("%s says nothing", name)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
	// Its results are cached, and must be discarded when the rules change.
	if err := os.WriteFile(filepath.Join(module, ".golangci.yaml"),
		[]byte(strings.Replace(string(settings), "pkg: os\n", "pkg: nothing\n", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _ := lint(); strings.Contains(out, "(depguard)") || !strings.Contains(out, "(errcheck)") {
		t.Errorf("with another rule for imports:\n%s", out)
	}
}

// Settings that lint does not implement are errors.
func TestRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte("linters:\n  enable: [errcheck, revive]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STATICCHECK_CACHE", "")
	r, err := readRules(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.check(); err == nil || !strings.Contains(err.Error(), "revive") {
		t.Errorf("%v", err)
	}
}
