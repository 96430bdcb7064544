package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// listed holds the fields of `go list -json` that the tests need.
type listed struct {
	ImportPath     string
	Dir            string
	Imports        []string
	GoFiles        []string
	CgoFiles       []string
	IgnoredGoFiles []string
	TestGoFiles    []string
	XTestGoFiles   []string
}

// sources lists the package's own files, including those that other build tags select.
func (p *listed) sources() []string {
	var all []string
	all = append(all, p.GoFiles...)
	all = append(all, p.CgoFiles...)
	for _, f := range p.IgnoredGoFiles {
		if !strings.HasSuffix(f, "_test.go") {
			all = append(all, f)
		}
	}
	return all
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("the module's root is not at %s: %v", dir, err)
	}
	return dir
}

func list(t *testing.T) []listed {
	t.Helper()
	args := []string{"list", "-e",
		"-json=ImportPath,Dir,Imports,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles"}
	for _, dir := range modules {
		args = append(args, "./"+path.Join(dir, "..."))
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var pkgs []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// inspect calls f with every node of the package's own files, and with the node's place for messages.
func (p *listed) inspect(t *testing.T, f func(n ast.Node, place func() token.Position) bool) {
	t.Helper()
	for _, file := range p.sources() {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			return f(n, func() token.Position { return fset.Position(n.Pos()) })
		})
	}
}

// imports lists the imports of one file, whatever its build tags.
func imports(t *testing.T, path string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	return paths
}

func TestArrowsGoDown(t *testing.T) {
	for _, p := range list(t) {
		path, ok := inside(p.ImportPath)
		if !ok {
			t.Errorf("%s is not in %s", p.ImportPath, Module)
			continue
		}
		own := floor(path)
		if own < 0 {
			t.Errorf("%s stands on no floor: add it to house in layers.go", path)
			continue
		}
		for _, file := range p.sources() {
			for _, imp := range imports(t, filepath.Join(p.Dir, file)) {
				below, ok := inside(imp)
				if !ok {
					continue
				}
				if at := floor(below); at > own {
					t.Errorf("%s/%s imports %s: floor %q may not import from floor %q above it", path, file, below, house[own].name,
						house[at].name)
				}
			}
		}
	}
}

func TestOnlyThreePlacesUseCgo(t *testing.T) {
	for _, p := range list(t) {
		path, _ := inside(p.ImportPath)
		if anyMatches(cgoAllowed, path) {
			continue
		}
		for _, file := range p.sources() {
			for _, imp := range imports(t, filepath.Join(p.Dir, file)) {
				if imp == "C" {
					t.Errorf("%s/%s imports \"C\": only %v may", path, file, cgoAllowed)
				}
			}
		}
	}
}

func TestPlanAndDSLArePure(t *testing.T) {
	for _, p := range list(t) {
		path, _ := inside(p.ImportPath)
		if !anyMatches(pure, path) {
			continue
		}
		for _, file := range p.sources() {
			for _, imp := range imports(t, filepath.Join(p.Dir, file)) {
				if anyMatches(impure, imp) {
					t.Errorf("%s/%s imports %s: %v are pure", path, file, imp, pure)
				}
			}
		}
		p.inspect(t, func(n ast.Node, place func() token.Position) bool {
			if _, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: starts a goroutine: %v are pure", place(), pure)
			}
			return true
		})
	}
}

// TestRules checks that the tables reject forbidden imports.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		upper, lower string
	}{
		{".", "primitive"}, {"primitive", "job/bootstrap"}, {"transport/tcp", "device/host"},
		{"device/cuda", "internal/driver"}, {"engine/nvlink", "primitive"}, {"cmd/goccl", "."},
		{"plan/programs", "plan"}, {"plan/executor", "plan"},
		{"capi/nccl", "."},
	} {
		if floor(c.upper) < 0 || floor(c.lower) < 0 {
			t.Fatalf("%s or %s stands on no floor", c.upper, c.lower)
		}
		if floor(c.upper) <= floor(c.lower) {
			t.Errorf("%s does not stand above %s", c.upper, c.lower)
		}
	}
	if floor("no/such/package") != -1 {
		t.Error("an unknown package stands somewhere")
	}
	if anyMatches(cgoAllowed, "primitive") || !anyMatches(cgoAllowed, "internal/driver/nvrtc") ||
		anyMatches(cgoAllowed, "internal/drivers") {
		t.Error("the list of cgo packages covers too much or too little")
	}
	if !anyMatches(impure, "os") || !anyMatches(impure, "net/http") || anyMatches(impure, "strings") {
		t.Error("the list of impure imports covers too much or too little")
	}
}
