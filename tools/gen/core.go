package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	fails           bool     // there is such an error
}

type coreField struct{ name, typ string }

// readCore reads the package in dir, abi, the file of it that is generated, and package primitive. Functions and
// methods of package primitive are values of variables of core, or stand for functions that core does not have; so do
// the methods of bootstrap.Bootstrap.
func readCore(dir, primitives, bootstraps string, abi []byte) (*core, error) {
	out := &core{map[string]coreFunction{}, map[string][]coreField{}}
	below := map[string]coreFunction{} // of package primitive, as core writes them
	if err := eachDecl(primitives, func(d ast.Decl) {
		if f, ok := d.(*ast.FuncDecl); ok {
			name, g := primitive(f)
			below[name] = g
		}
	}); err != nil {
		return nil, err
	}
	if err := eachDecl(dir, func(d ast.Decl) { out.add(d, below) }); err != nil {
		return nil, err
	}
	if err := eachDecl(bootstraps, func(d ast.Decl) { bootstrapMethods(d, below) }); err != nil {
		return nil, err
	}
	out.adopt(below)
	return out, eachDeclOf(abiFile, abi, func(d ast.Decl) { out.add(d, nil) })
}

// bootstrapMethods adds the methods of the interface bootstrap.Bootstrap, which a Bootstrap of core embeds.
func bootstrapMethods(d ast.Decl, below map[string]coreFunction) {
	g, ok := d.(*ast.GenDecl)
	if !ok {
		return
	}
	for _, s := range g.Specs {
		t, ok := s.(*ast.TypeSpec)
		if !ok || t.Name.Name != "Bootstrap" {
			continue
		}
		for _, m := range t.Type.(*ast.InterfaceType).Methods.List {
			f := signature(&ast.FuncDecl{Name: m.Names[0], Type: m.Type.(*ast.FuncType)})
			f.params = append([]string{"*Bootstrap"}, f.params...)
			below["(*core.Bootstrap)."+f.name] = f
		}
	}
}

// adopt adds functions and methods of other packages under the names that the headers give them.
func (c *core) adopt(below map[string]coreFunction) {
	for _, expression := range slices.Backward(slices.Sorted(maps.Keys(below))) { // functions before methods
		f := below[expression]
		if !ast.IsExported(f.name) {
			continue
		}
		names := []string{}
		of, method := f.name, ""
		if receiver, after, ok := strings.Cut(expression, ")."); ok {
			of, method = receiver[strings.Index(receiver, ".")+1:], after
			names = append(names, strings.TrimPrefix(of, "Registered")+method)
			if len(f.results) == 1 && f.results[0] == "*primitive."+method {
				names = append(names, method+"Create")
			}
			of = method
		}
		if made, ok := strings.CutPrefix(of, "New"); ok && method == "" {
			names = append(names, made+"Create")
		}
		if read, ok := strings.CutPrefix(of, "Deserialize"); ok {
			names = append(names, read+"Deserialize")
		}
		f.name = expression
		for _, name := range names {
			if key := strings.ToLower(name); c.functions[key].name == "" {
				c.functions[key] = f
			}
		}
	}
}

// eachDecl calls f with the declarations of the package in dir, except for tests and what this tool generates.
func eachDecl(dir string, f func(ast.Decl)) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || filepath.Base(path) == abiFile {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := eachDeclOf(path, text, f); err != nil {
			return err
		}
	}
	return nil
}

func eachDeclOf(path string, text []byte, f func(ast.Decl)) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		f(d)
	}
	return nil
}

// primitive returns the expression for a function or a method of package primitive, and its signature.
func primitive(d *ast.FuncDecl) (string, coreFunction) {
	f := signature(d)
	name := "primitive." + f.name
	if receiver := listTypes(d.Recv); len(receiver) > 0 {
		name = "(" + outside(receiver[0]) + ")." + f.name
		f.params = append(receiver, f.params...)
	}
	for _, types := range [][]string{f.params, f.results} {
		for i, t := range types {
			types[i] = outside(t)
		}
	}
	return name, f
}

// outside returns a type of package primitive, or a pointer to one, as another package writes it.
func outside(t string) string {
	if name := strings.TrimPrefix(t, "*"); ast.IsExported(name) {
		return t[:len(t)-len(name)] + "primitive." + name
	}
	return t
}

func signature(d *ast.FuncDecl) coreFunction {
	f := coreFunction{name: d.Name.Name, params: listTypes(d.Type.Params), results: listTypes(d.Type.Results)}
	if n := len(f.results); n > 0 && f.results[n-1] == "error" {
		f.results, f.fails = f.results[:n-1], true
	}
	return f
}

func (c *core) add(d ast.Decl, below map[string]coreFunction) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil || !d.Name.IsExported() {
			return
		}
		if f := signature(d); f.fails {
			c.functions[strings.ToLower(f.name)] = f
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok && len(v.Values) == 1 {
				if f, ok := below[types.ExprString(v.Values[0])]; ok {
					f.name = v.Names[0].Name
					c.functions[strings.ToLower(f.name)] = f
				}
				continue
			}
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
