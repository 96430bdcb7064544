// Lint runs the linters of .golangci.yaml with its rules: go vet's analyzers, staticcheck, unused, errcheck,
// ineffassign, depguard and misspell. The file is golangci-lint's, so editors can use it too; the linters themselves
// build in seconds, and golangci-lint in minutes.
//
// Usage, in the root of the repository: lint [flags] packages
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"os"

	"github.com/OpenPeeDeeP/depguard/v2"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/kisielk/errcheck/errcheck"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/vet"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	r, err := readRules(".golangci.yaml")
	if err == nil {
		err = r.check()
	}
	if err != nil {
		fail(err)
	}
	imports, err := depguard.NewAnalyzer(r.imports())
	if err != nil {
		fail(err)
	}
	excluded, err := r.excluded()
	if err != nil {
		fail(err)
	}
	if err := errcheck.Analyzer.Flags.Set("exclude", excluded); err != nil {
		fail(err)
	}

	cmd := lintcmd.NewCommand("lint")
	cmd.AddAnalyzers(staticcheck.Analyzers...)
	cmd.AddAnalyzers(simple.Analyzers...)
	cmd.AddAnalyzers(stylecheck.Analyzers...)
	cmd.AddAnalyzers(unused.Analyzer)
	for _, a := range vet.Suite {
		cmd.AddBareAnalyzers(reading(a))
	}
	cmd.AddBareAnalyzers(errcheck.Analyzer, resolving(ineffassign.Analyzer), imports, spelling)
	cmd.ParseFlags(append([]string{"-checks", r.checks()}, os.Args[1:]...))
	os.Exit(cmd.Execute())
}

// reading provides the files that an analyzer reads itself, as go vet does and lintcmd does not.
func reading(a *analysis.Analyzer) *analysis.Analyzer {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		pass.ReadFile = os.ReadFile
		return run(pass)
	}
	return a
}

// resolving provides files whose identifiers the parser has resolved, which lintcmd does not request.
func resolving(a *analysis.Analyzer) *analysis.Analyzer {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		files := make([]*ast.File, len(pass.Files))
		for i, f := range pass.Files {
			var err error
			if files[i], err = parser.ParseFile(pass.Fset, pass.Fset.File(f.FileStart).Name(), nil,
				parser.ParseComments); err != nil {
				return nil, err
			}
		}
		pass.Files = files
		return run(pass)
	}
	return a
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "lint:", err)
	os.Exit(2)
}
