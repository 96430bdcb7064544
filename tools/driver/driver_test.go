package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const folder = "../../internal/driver"

// The committed files are equal to what the lines of the package generate.
func TestGenerated(t *testing.T) {
	files, err := generate(folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: run `go generate ./internal/driver`", name)
		}
	}
}

func TestCalls(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"ncclabi", "verbs"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("verbs/a.c", "static int own(void) { return 0; }\n\n"+
		"int gocclverbs_open(const char *name,\n\tint *fd) {\n\treturn 0;\n}\n"+
		"const char *gocclverbs_text(int r) { return \"\"; }\n")
	write("ncclabi/abi.h", "R(ncclGetUniqueId, (ncclUniqueId *)) \\\n"+
		"O(ncclGather, (const void *, comm_t,\\\n\tstream_t))\n")
	write("api.h", "R(cuCount, (int *)) \\\nO(cuPut, \\\n\t(CUstream, \\\n\tCUdeviceptr, unsigned))\n")
	write("a.go", `package driver

// Count counts.
//
//cu:call Count() (n int) = cuCount(n)

//cu:queue (c Context) Put(p Ptr, v uint32, s Stream) = gone cuPut(s, p, 3)
//cu:call Name = cuCount(r1)
//cu:call Free(p Ptr, all bool) = release(a)

func Found() bool { return find("x") != 0 }
`)
	write("a_cgo.go", `package driver

//cu:nocgo fmt.Errorf("no %s",
//cu:nocgo 	"cgo")

import "C"

type Library struct{ p *C.int }
type inner struct{}

func Open(name string) (*Library, error) { return nil, nil }
func (l *Library) Size(a, b int) int     { return 0 }
func (i inner) Size() int                { return 0 }
func check(r C.int) error                { return nil }
func find(name string) int               { return 0 }
`)
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(files["zz_nocgo.go"]); strings.Contains(s, "inner") || strings.Contains(s, "check") {
		t.Error(s)
	}
	for name, parts := range map[string][]string{
		"zz_calls.h": {"OP_Put,\n\tOP_Count,", "OP_immediate = OP_Count",
			"case OP_Put: TRY(cuPut, PTR(CUstream, a[2]), (CUdeviceptr)a[0], 3); return 0;",
			"case OP_Count: { int n = 0; TRY(cuCount, &n); a[0] = (uint64_t)(int64_t)n; return 0; }",
			"case OP_Name: { int r1 = 0; TRY(cuCount, &r1); a[1] = (uint64_t)(int64_t)r1; return 0; }",
			"case OP_Free: return release(a);"},
		"zz_calls.go": {"// Count counts.\nfunc Count() (n int, err error) {", "opPut op = iota\n\topCount\n\topName\n",
			"return gone(call(opPut, c, &a, nil, nil))", "a := args{uint64(p), b2u(all)}"},
		"zz_nocgo.go": {"var errNoCgo = fmt.Errorf(\"no %s\",\n\t\"cgo\")\n", "type Library struct{}",
			"func Open(string) (r0 *Library, r1 error) { return r0, errNoCgo }",
			"func (*Library) Size(int, int) (r0 int) { return r0 }", "func find(string) (r0 int) { return r0 }"},
		"verbs/zz_declared.h":     {"int gocclverbs_open(const char *name, int *fd);\nconst char *gocclverbs_text(int r);\n"},
		"ncclabi/zz_functions.go": {"fGetUniqueID Function = iota\n\tGather\n", "\"ncclGetUniqueId\",\n\t\"ncclGather\",\n"},
	} {
		for _, part := range parts {
			if !strings.Contains(string(files[name]), part) {
				t.Errorf("%s has no %q:\n%s", name, part, files[name])
			}
		}
	}
	write("b.go", "package driver\n\n//cu:call Wrong = cuCount(1, 2)\n")
	if _, err := generate(root); err == nil {
		t.Error("a call with too many arguments is accepted")
	}
	write("b.go", "package driver\n\n//cu:coll Wrong = cuCount(r0)\n")
	if _, err := generate(root); err == nil {
		t.Error("an unknown line is accepted")
	}
}
