package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// noCgo returns, by their paths, the files that stand for the *_cgo.go below root in a build without cgo: types
// without fields, and functions that fail with the error of the line
//
//	//cu:nocgo fmt.Errorf("%w: …", ErrUnavailable)
//
// which may go on in further lines. Unexported declarations are left out, unless files without cgo use them.
func noCgo(root string) (map[string][]byte, error) {
	folders := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, "_cgo.go") {
			folders[filepath.Dir(path)] = append(folders[filepath.Dir(path)], path)
		}
		return err
	})
	files := map[string][]byte{}
	for folder, paths := range folders {
		text, bad := withoutCgo(paths)
		if err = errors.Join(err, bad); text == nil {
			continue
		}
		name, bad := filepath.Rel(root, filepath.Join(folder, "zz_nocgo.go"))
		files[name], err = text, errors.Join(err, bad)
	}
	return files, err
}

func withoutCgo(paths []string) ([]byte, error) {
	var failure, body strings.Builder
	used, err := usedWithoutCgo(filepath.Dir(paths[0]))
	if err != nil {
		return nil, err
	}
	name := ""
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "//cu:nocgo "); ok {
				failure.WriteString(rest)
			}
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		name = file.Name.Name
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				body.WriteString(failing(d, used))
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if t, ok := s.(*ast.TypeSpec); ok && used(t.Name.Name) {
						fmt.Fprintf(&body, "// %s is never made in this build.\ntype %s struct{}\n\n", t.Name, t.Name)
					}
				}
			}
		}
	}
	if failure.Len() == 0 {
		return nil, nil
	}
	imports := ""
	if strings.Contains(failure.String(), "fmt.") {
		imports = "import \"fmt\"\n\n"
	}
	out, err := format.Source(fmt.Appendf(nil, "//go:build !cgo || !linux\n\n%s\n\npackage %s\n\n%svar errNoCgo = %s\n%s",
		notice, name, imports, &failure, &body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", paths[0], err)
	}
	return out, nil
}

// usedWithoutCgo tells which names are exported, or stand in the other files of a folder.
func usedWithoutCgo(folder string) (used func(name string) bool, err error) {
	others, err := filepath.Glob(filepath.Join(folder, "*.go"))
	words := map[string]bool{}
	for _, path := range others {
		if strings.HasSuffix(path, "_cgo.go") || strings.HasSuffix(path, "_nocgo.go") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, bad := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err = errors.Join(err, bad); bad != nil {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				words[id.Name] = true
			}
			return true
		})
	}
	return func(name string) bool { return ast.IsExported(name) || words[name] }, err
}

// failing returns a function of the same signature that fails.
func failing(d *ast.FuncDecl, used func(name string) bool) string {
	receiver := ""
	if r := listTypes(d.Recv); len(r) > 0 {
		receiver = "(" + r[0] + ") "
		if !ast.IsExported(strings.TrimPrefix(r[0], "*")) {
			return ""
		}
	}
	if !used(d.Name.Name) {
		return ""
	}
	var results, names []string
	for i, t := range listTypes(d.Type.Results) {
		n := fmt.Sprint("r", i)
		results, names = append(results, n+" "+t), append(names, n)
		if t == "error" {
			names[i] = "errNoCgo"
		}
	}
	return fmt.Sprintf("// %s cannot work in this build.\nfunc %s%s(%s) (%s) { return %s }\n\n", d.Name, receiver, d.Name,
		strings.Join(listTypes(d.Type.Params), ", "), strings.Join(results, ", "), strings.Join(names, ", "))
}

// listTypes returns a type for each name.
func listTypes(l *ast.FieldList) (out []string) {
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
