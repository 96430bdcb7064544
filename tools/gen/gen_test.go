package main

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

const capi = "../../capi"

// The committed files are equal to the files that the headers and package core generate.
func TestGenerated(t *testing.T) {
	files, err := generate(capi)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join(capi, path))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: run `go generate ./capi`", path)
		}
	}
}

func TestDeclarations(t *testing.T) {
	for _, c := range []struct {
		text             string
		typ, name, array string
		readOnly         bool
	}{
		{"int32_t rank", "int32_t", "rank", "", false},
		{"const char *const *options", "char **", "options", "", true},
		{"const uint32_t shape[9]", "uint32_t", "shape", "9", true},
		{"const struct goccl_call_config *config", "goccl_call_config *", "config", "", true},
		{"void (*f)(void *arg)", "void *", "f", "", false},
	} {
		if v := declared(c.text); v.typ != c.typ || v.name != c.name || v.array != c.array || v.readOnly() != c.readOnly {
			t.Errorf("%q: %+v", c.text, v)
		}
	}
	var names []string
	for _, f := range fields(" const int64_t *a, *b; uint64_t c; const void *bias[2]; uint32_t blocks, reserved; ") {
		names = append(names, f.typ+" "+f.name)
	}
	want := []string{"int64_t * a", "int64_t * b", "uint64_t c", "void * bias", "uint32_t blocks", "uint32_t reserved"}
	if !slices.Equal(names, want) {
		t.Errorf("fields %q, want %q", names, want)
	}
}

// A function of core that does not fit its declaration is no export.
func TestMisfits(t *testing.T) {
	h := &header{base: map[string]string{"goccl_comm": "uint64_t"}, functions: []function{{result: "goccl_result",
		name: "comm_wait", params: []variable{declared("goccl_comm comm"), declared("int64_t timeout")}}}}
	for name, f := range map[string]coreFunction{
		"absent":              {name: "Other"},
		"too few parameters":  {name: "CommWait", params: []string{"Handle"}, fails: true},
		"too many parameters": {name: "CommWait", params: []string{"Handle", "time.Duration", "int"}, fails: true},
		"a context without a timeout": {name: "CommWait", params: []string{"context.Context", "context.Context"},
			fails: true},
		"a result without room": {name: "CommWait", params: []string{"Handle", "time.Duration"}, results: []string{"int"},
			fails: true},
	} {
		key := "commwait"
		if f.name != "CommWait" {
			key = "other"
		}
		if out, err := writeExports(h, &core{functions: map[string]coreFunction{key: f}}); err == nil {
			t.Errorf("%s: %s", name, out)
		}
	}
	good := coreFunction{name: "CommWait", params: []string{"Handle", "time.Duration"}, fails: true}
	if out, err := writeExports(h, &core{functions: map[string]coreFunction{"commwait": good}}); err != nil ||
		!bytes.Contains(out, []byte("result(core.CommWait(core.Handle(comm_), time.Duration(timeout_)))")) {
		t.Errorf("%v\n%s", err, out)
	}
	good.params = []string{"context.Context", "Handle"}
	if out, err := writeExports(h, &core{functions: map[string]coreFunction{"commwait": good}}); err != nil ||
		!bytes.Contains(out, []byte("ctx, cancel := core.StepContext(time.Duration(timeout_))\n\tdefer cancel()\n")) ||
		!bytes.Contains(out, []byte("result(core.CommWait(ctx, core.Handle(comm_)))")) {
		t.Errorf("%v\n%s", err, out)
	}
	good.params, good.fails = []string{"Handle", "time.Duration"}, false
	if out, err := writeExports(h, &core{functions: map[string]coreFunction{"commwait": good}}); err != nil ||
		!bytes.Contains(out, []byte("\tcore.CommWait(core.Handle(comm_), time.Duration(timeout_))\n\treturn C.GOCCL")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A variable of core whose value is a function of package primitive has its signature.
func TestFunctionsBelow(t *testing.T) {
	below := map[string]coreFunction{}
	c := &core{map[string]coreFunction{}, map[string][]coreField{}}
	read := func(text string, f func(ast.Decl)) {
		t.Helper()
		if err := eachDeclOf("x.go", []byte("package p\n"+text), f); err != nil {
			t.Fatal(err)
		}
	}
	read(`func (c *Context) Add(m *Memory, id ID, n int, b []byte) (*Future, error) { return nil, nil }
		func Make() Context { return Context{} }`, func(d ast.Decl) {
		name, f := primitive(d.(*ast.FuncDecl))
		below[name] = f
	})
	read("var (\n ContextAdd = (*primitive.Context).Add\n ContextMake = primitive.Make\n errNone = errors.New(``)\n)",
		func(d ast.Decl) { c.add(d, below) })
	want := map[string]coreFunction{
		"contextadd": {"ContextAdd", []string{"*primitive.Context", "*primitive.Memory", "primitive.ID", "int", "[]byte"},
			[]string{"*primitive.Future"}, true},
		"contextmake": {"ContextMake", nil, []string{"primitive.Context"}, false},
	}
	if !reflect.DeepEqual(c.functions, want) {
		t.Errorf("%+v, want %+v", c.functions, want)
	}
}
