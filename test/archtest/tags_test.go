package archtest

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// Tags of bootstrap messages are named in package tags, each once: no call of Send, Recv or Sub has a number in place.
func TestTagsHaveNames(t *testing.T) {
	values := map[string]string{}
	for _, p := range list(t) {
		path, _ := inside(p.ImportPath)
		p.inspect(t, func(n ast.Node, place func() token.Position) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if path == "internal/tags" && len(n.Values) == 1 && !strings.HasPrefix(n.Names[0].Name, "MostOf") {
					value := text(n.Values[0])
					if other := values[value]; other != "" {
						t.Errorf("%s and %s are one number", n.Names[0].Name, other)
					}
					values[value] = n.Names[0].Name
				}
			case *ast.CallExpr:
				s, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || len(n.Args) < 3 {
					return true
				}
				at := map[string]int{"Send": 2, "Recv": 2, "Sub": 2}[s.Sel.Name]
				if at == 0 || !isContext(n.Args[0]) {
					return true
				}
				if _, literal := n.Args[at].(*ast.BasicLit); literal && !strings.HasPrefix(path, "examples") &&
					!strings.HasPrefix(path, "bench") {
					t.Errorf("%s: a tag without a name: give it one in internal/tags", place())
				}
			}
			return true
		})
	}
	if len(values) < 8 {
		t.Errorf("only %d tags were found: this test reads internal/tags no more", len(values))
	}
}

func isContext(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "ctx"
}

// text is the source text of an expression, near enough to compare constants.
func text(e ast.Expr) string {
	var b strings.Builder
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			b.WriteString(n.Value + " ")
		case *ast.UnaryExpr:
			b.WriteString(n.Op.String())
		case *ast.BinaryExpr:
			b.WriteString(n.Op.String())
		}
		return true
	})
	return b.String()
}
