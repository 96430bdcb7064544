package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

// reader is the only package that may read the environment, and setters may also set it: tests need that.
var (
	reader  = "internal/setting"
	setters = []string{"internal/setting", "test/mockcuda"}
)

// readers and writers are the functions of os and syscall that read and write the environment.
var (
	readers = []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}
	writers = []string{"Setenv", "Unsetenv", "Clearenv"}
)

// One package reads the environment, and only libraries that C programs load set variables.
func TestOnePackageReadsTheEnvironment(t *testing.T) {
	found := 0
	for _, p := range list(t) {
		path, _ := inside(p.ImportPath)
		p.inspect(t, func(n ast.Node, place func() token.Position) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := s.X.(*ast.Ident)
			if !ok || pkg.Name != "os" && pkg.Name != "syscall" && pkg.Name != "unix" {
				return true
			}
			switch {
			case slices.Contains(readers, s.Sel.Name):
				found++
				if path != reader {
					t.Errorf("%s: %s.%s: only %s may read the environment", place(), pkg.Name, s.Sel.Name, reader)
				}
			case slices.Contains(writers, s.Sel.Name) && !slices.Contains(setters, path):
				t.Errorf("%s: %s.%s: only %v may set variables", place(), pkg.Name, s.Sel.Name, setters)
			}
			return true
		})
	}
	if found == 0 {
		t.Errorf("%s reads nothing: this test finds it no more", reader)
	}
}
