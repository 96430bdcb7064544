package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
)

// core is what package core exports.
type core struct {
	functions map[string]coreFunction // by the name in lower case
	structs   map[string][]coreField
}

type coreFunction struct {
	name            string
	params, results []string // types; the error that ends the results is left out
}

type coreField struct{ name, typ string }

// readCore reads the package in dir, and abi, the file of it that is generated.
func readCore(dir string, abi []byte) (*core, error) {
	out := &core{map[string]coreFunction{}, map[string][]coreField{}}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || filepath.Base(path) == abiFile {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := out.parse(path, text); err != nil {
			return nil, err
		}
	}
	return out, out.parse(abiFile, abi)
}

func (c *core) parse(path string, text []byte) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		c.add(d)
	}
	return nil
}

func (c *core) add(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil || !d.Name.IsExported() {
			return
		}
		f := coreFunction{name: d.Name.Name, params: listTypes(d.Type.Params), results: listTypes(d.Type.Results)}
		if n := len(f.results); n > 0 && f.results[n-1] == "error" {
			f.results = f.results[:n-1]
			c.functions[strings.ToLower(f.name)] = f
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			t, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			body, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			var fields []coreField
			for _, f := range body.Fields.List {
				for _, n := range f.Names {
					fields = append(fields, coreField{n.Name, types.ExprString(f.Type)})
				}
			}
			c.structs[t.Name.Name] = fields
		}
	}
}

// listTypes returns a type for each name.
func listTypes(l *ast.FieldList) []string {
	var out []string
	if l == nil {
		return nil
	}
	for _, f := range l.List {
		for range max(len(f.Names), 1) {
			out = append(out, types.ExprString(f.Type))
		}
	}
	return out
}
