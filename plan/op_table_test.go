package plan_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/plan"
)

// TestRowsAreSound checks what the readers of the table rely on.
func TestRowsAreSound(t *testing.T) {
	words := map[string]bool{}
	for _, k := range plan.OpKinds() {
		does, moves := k.Does, k.Does.Has(plan.Moves)
		counts := does&(plan.Takes|plan.Adds) != 0
		for what, ok := range map[string]bool{
			"does something": does != 0,
			"has a meaning":  k.Doc != "",
			"has operands if and only if it moves data": moves == (len(k.Src.Kinds()) > 0) &&
				moves == (len(k.Dst.Kinds()) > 0),
			"pairs its operands or combines them": moves == (k.Pairs != k.Reduces),
			"counts on channels or on semaphores": !counts || k.Semaphores != (len(k.Channels) > 0),
			"flushes port channels": !does.Has(plan.Flushes) ||
				slices.Equal(k.Channels, []plan.ChannelType{plan.PortChannel}),
			"meets, joins or loops and does nothing else": does&(plan.Meets|plan.Joins|plan.Loops) == 0 || does&(does-1) == 0,
			"relaxes an op that does the same": k.Relaxes == "" || k.Relaxes.Kind() != nil &&
				k.Relaxes.Kind().Does == does,
			"has its word in the language": k.Word == "" || !words[k.Word],
			"reaches peers over a channel": reachesPeers(&k) == (moves && len(k.Channels) > 0),
		} {
			if !ok {
				t.Errorf("%s: not true that it %s", k.Name, what)
			}
		}
		words[k.Word] = true
	}
}

func reachesPeers(k *plan.OpKind) bool {
	return slices.ContainsFunc(append(slices.Clone(k.Src.Kinds()), k.Dst.Kinds()...),
		func(o plan.OperandKind) bool { return o.Chunk() != plan.LocalChunk })
}

// TestNobodyAsksForAnOp holds that only the table knows the particulars of an op: no code switches on the name of an op
// or compares it.
func TestNobodyAsksForAnOp(t *testing.T) {
	table, err := parser.ParseFile(token.NewFileSet(), "op_table.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ops := map[string]bool{}
	ast.Inspect(table, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok {
			if id, ok := s.Type.(*ast.Ident); ok && id.Name == "OpName" {
				ops[s.Names[0].Name] = true
			}
		}
		return true
	})
	if len(ops) != len(plan.OpKinds()) {
		t.Fatalf("%d names and %d rows", len(ops), len(plan.OpKinds()))
	}
	seen := 0
	for _, dir := range []string{".", "../test/interp", "simulate", "dsl", "programs", "executor",
		"executor/planrun", "../cmd/goccl", "../capi"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			seen++
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			named := func(e ast.Expr) bool {
				if s, ok := e.(*ast.SelectorExpr); ok {
					x, ok := s.X.(*ast.Ident)
					return ok && x.Name == "plan" && ops[s.Sel.Name]
				}
				id, ok := e.(*ast.Ident)
				return ok && dir == "." && ops[id.Name]
			}
			ast.Inspect(f, func(n ast.Node) bool {
				var asked []ast.Expr
				switch n := n.(type) {
				case *ast.CaseClause:
					asked = n.List
				case *ast.BinaryExpr:
					asked = []ast.Expr{n.X, n.Y}
				case *ast.KeyValueExpr:
					asked = []ast.Expr{n.Key}
				}
				if slices.ContainsFunc(asked, named) {
					t.Errorf("%v: asks for an op by its name; let its row in plan/op_table.go state the property",
						set.Position(n.Pos()))
				}
				return true
			})
		}
	}
	if seen < 80 {
		t.Errorf("%d files", seen)
	}
}
