package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// reaching returns the functions of a folder's files, tests or others, from which code can be reached that calls one of
// asking, or compares commtest.Slowness. Functions and methods are told apart by their names only: a function may be
// listed without need, and none is missed.
func reaching(dir string, tests bool, asking map[string]bool) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	callers, functions := map[string][]string{}, map[string]bool{}
	var found []string // functions whose callers are not visited yet
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") != tests {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			name := f.Name.Name
			functions[name] = functions[name] || f.Recv == nil
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					callers[id.Name] = append(callers[id.Name], name)
				}
				if asks(n, asking) {
					found = append(found, name)
				}
				return true
			})
		}
	}
	seen := map[string]bool{}
	for len(found) > 0 {
		name := found[len(found)-1]
		found = found[:len(found)-1]
		if !seen[name] {
			seen[name] = true
			found = append(found, callers[name]...)
		}
	}
	var names []string
	for name := range seen {
		if functions[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// asks says whether n names one of asking, or compares commtest.Slowness.
func asks(n ast.Node, asking map[string]bool) bool {
	if b, ok := n.(*ast.BinaryExpr); ok {
		s, ok := b.X.(*ast.SelectorExpr)
		return ok && b.Op.Precedence() == token.EQL.Precedence() && s.Sel.Name == "Slowness"
	}
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := s.X.(*ast.Ident)
	return ok && asking[pkg.Name+"."+s.Sel.Name]
}
