package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// globalRow is a row of the table of process-wide variables in docs/architecture.md: the package, the variables, and
// three cells about them. globalName is a variable in it.
var (
	globalRow  = regexp.MustCompile("(?m)^\\| `([^`]+)`: ((?:`[A-Za-z0-9]+`(?:, )?)+) \\| [^|]+ \\| [^|]+ \\| [^|]+ \\|$")
	globalName = regexp.MustCompile("`([^`]+)`")
)

// TestProcessWideVariables compares the package variables that change after their initialization with the table in
// docs/architecture.md.
func TestProcessWideVariables(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range globalRow.FindAllStringSubmatch(string(text), -1) {
		for _, name := range globalName.FindAllStringSubmatch(row[2], -1) {
			listed[row[1]+"."+name[1]] = true
		}
	}
	for _, p := range list(t) {
		path, _ := inside(p.ImportPath)
		if anyMatches([]string{"test/...", "bench/...", "examples/..."}, path) {
			continue
		}
		files := map[string]*ast.File{}
		for _, name := range p.sources() {
			if files[name], err = parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil,
				parser.SkipObjectResolution); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range mutable(files) {
			if global := path + "." + name; !listed[global] {
				t.Errorf("%s changes after its initialization: let an object own it, or defend it in docs/architecture.md", global)
			} else {
				delete(listed, global)
			}
		}
	}
	for name := range listed {
		t.Errorf("docs/architecture.md: no variable %s changes: remove its row", name)
	}
}

// TestMutable checks what counts as a change.
func TestMutable(t *testing.T) {
	const text = `package p
import ("sync"; "errors")
type counter struct{ n int }
func (c *counter) add() { c.n++ }
type plain struct{ n int }
var (
	once sync.Once
	cached = sync.OnceValue(func() int { return 1 })
	pools = map[int]*sync.Pool{}
	total counter
	shared = &counter{}
	assigned, constant = 1, 2
	element = map[string]int{}
	field plain
	pointed int
	table = map[string]int{"a": 1}
	ErrPlain = errors.New("plain")
	shadowed = 3
	begun = 0
)
func init() { begun = 1 }
func f(shadowed int) *int {
	assigned++
	element["a"] = constant
	field.n = table["a"]
	shadowed = 4
	return &pointed
}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"assigned", "cached", "element", "field", "once", "pointed", "pools", "shared", "total"}
	if got := mutable(map[string]*ast.File{"p.go": file}); !slices.Equal(got, want) {
		t.Errorf("%v change, want %v", got, want)
	}
}

// mutable lists the package variables that code outside of init assigns, takes the address of, or empties, and those
// whose type has a state: types of sync and atomic, and the package's own types that hold such, or that a method
// changes.
func mutable(files map[string]*ast.File) []string {
	stateful, vars, found := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if star, ok := receiver(d).(*ast.StarExpr); ok && len(d.Recv.List[0].Names) == 1 && d.Body != nil {
					changes(d, nil, func(name string) {
						stateful[base(star.X)] = stateful[base(star.X)] || name == d.Recv.List[0].Names[0].Name
					})
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && keeps(s.Type, nil) {
						stateful[s.Name.Name] = true
					}
				}
			}
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, s := range g.Specs {
					v := s.(*ast.ValueSpec)
					for i, name := range v.Names {
						vars[name.Name] = true
						if keeps(v.Type, stateful) || i < len(v.Values) && keeps(v.Values[i], stateful) {
							found[name.Name] = true
						}
					}
				}
			}
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && (fn.Recv != nil || fn.Name.Name != "init") {
				changes(fn, fn.Recv, func(name string) { found[name] = true })
			}
		}
	}
	maps.DeleteFunc(found, func(name string, _ bool) bool { return !vars[name] || name == "_" })
	return slices.Sorted(maps.Keys(found))
}

// receiver returns the type of a method's receiver, nil for a function.
func receiver(fn *ast.FuncDecl) ast.Expr {
	if fn.Recv == nil {
		return nil
	}
	return fn.Recv.List[0].Type
}

// keeps reports whether a variable of this type or with this value has a state.
func keeps(e ast.Expr, stateful map[string]bool) bool {
	found := false
	if e == nil {
		return false
	}
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.FuncType: // of a package's functions
			return false
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			found = found || ok && (pkg.Name == "sync" || pkg.Name == "atomic")
		case *ast.CompositeLit:
			found = found || n.Type != nil && stateful[base(n.Type)]
		case *ast.Ident:
			found = found || n == e && stateful[n.Name]
		}
		return true
	})
	return found
}

// changes calls f with the variables that a function changes and does not declare, neither inside nor as params.
func changes(fn *ast.FuncDecl, params *ast.FieldList, f func(name string)) {
	local := map[string]bool{}
	declare := func(fields *ast.FieldList) {
		if fields != nil {
			for _, field := range fields.List {
				for _, name := range field.Names {
					local[name.Name] = true
				}
			}
		}
	}
	declare(fn.Type.Params)
	declare(fn.Type.Results)
	change := func(e ast.Expr) {
		if name := base(e); !local[name] {
			f(name)
		}
	}
	declare(params)
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			declare(n.Params)
			declare(n.Results)
		case *ast.ValueSpec:
			for _, name := range n.Names {
				local[name.Name] = true
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				for _, e := range []ast.Expr{n.Key, n.Value} {
					if e != nil {
						local[base(e)] = true
					}
				}
			}
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if _, plain := e.(*ast.Ident); plain && n.Tok == token.DEFINE {
					local[base(e)] = true
				} else {
					change(e)
				}
			}
		case *ast.IncDecStmt:
			change(n.X)
		case *ast.UnaryExpr:
			if _, literal := n.X.(*ast.CompositeLit); n.Op == token.AND && !literal {
				change(n.X)
			}
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "delete" || name.Name == "clear") {
				change(n.Args[0])
			}
		}
		return true
	})
}

// base returns the variable or type that an expression begins with.
func base(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return "_"
		}
	}
}
