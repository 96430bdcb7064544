package main

import (
	"bytes"
	"os"
	"path/filepath"
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
		"absent":                {name: "Other"},
		"too few parameters":    {name: "CommWait", params: []string{"Handle"}},
		"too many parameters":   {name: "CommWait", params: []string{"Handle", "time.Duration", "int"}},
		"a result without room": {name: "CommWait", params: []string{"Handle", "time.Duration"}, results: []string{"int"}},
	} {
		key := "commwait"
		if f.name != "CommWait" {
			key = "other"
		}
		if out, err := writeExports(h, &core{functions: map[string]coreFunction{key: f}}); err == nil {
			t.Errorf("%s: %s", name, out)
		}
	}
	good := coreFunction{name: "CommWait", params: []string{"Handle", "time.Duration"}}
	if out, err := writeExports(h, &core{functions: map[string]coreFunction{"commwait": good}}); err != nil ||
		!bytes.Contains(out, []byte("result(core.CommWait(core.Handle(comm_), time.Duration(timeout_)))")) {
		t.Errorf("%v\n%s", err, out)
	}
}
