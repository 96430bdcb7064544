//go:build cgo && linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// toolkit is a folder with what nccl.h needs of CUDA's headers; without crt it is the folder of the package of the
// runtime's headers alone, which no compiler can use.
func toolkit(t *testing.T, crt bool) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"cuda_runtime.h": "#include \"crt/host_config.h\"\n#define __CUDA_RUNTIME_H__\ntypedef struct CUstream_st " +
			"*cudaStream_t;\ntypedef struct CUevent_st *cudaEvent_t;\ntypedef enum { cudaSuccess } cudaError_t;\n",
		"cuda_fp16.h": "#pragma once\ntypedef struct { unsigned short x; } half;\n",
		"cuda_bf16.h": "#pragma once\ntypedef struct { unsigned short x; } __nv_bfloat16;\n",
		"cuda_fp8.h":  "#pragma once\ntypedef struct { unsigned char x; } __nv_fp8_e4m3;\n",
	}
	if crt {
		files["crt/host_config.h"] = ""
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A CUDA program takes the runtime and the small floats from nccl.h, as it does from NVIDIA's; a C program needs none
// of CUDA's headers.
func TestHeaderBringsCUDA(t *testing.T) {
	const call = "ncclResult_t f(cudaStream_t s) { return ncclBroadcast(0, 0, 0, ncclHalf, 0, 0, s); }\n"
	const plain = "#include <nccl.h>\n" + call
	const cuda = "#include <nccl.h>\ncudaError_t e; half h; __nv_bfloat16 b;\n#ifdef __cplusplus\n__nv_fp8_e4m3 " +
		"g;\n#endif\n" + call
	full, part, gathered := toolkit(t, true), toolkit(t, false), t.TempDir()
	if out, err := exec.Command("make", "-C", "..", "headers", "INCLUDE="+gathered).CombinedOutput(); err != nil {
		t.Fatalf("make headers: %v\n%s", err, out)
	}
	for _, c := range []struct {
		name, compiler, language, text string
		args                           []string
	}{
		{"C", "gcc", "c", plain, nil},
		{"C++", "g++", "c++", plain, nil},
		{"C and CUDA", "gcc", "c", cuda, []string{"-isystem", full}},
		{"C++ and CUDA", "g++", "c++", cuda, []string{"-isystem", full}},
		{"nvcc", "g++", "c++", cuda, []string{"-D__CUDACC__", "-isystem", full}},
		{"C and a part of CUDA", "gcc", "c", plain, []string{"-isystem", part}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.compiler); err != nil {
				t.Skip(err)
			}
			for _, from := range []string{"nccl", gathered} {
				cc := exec.Command(c.compiler,
					append([]string{"-x", c.language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I" + from, "-"}, c.args...)...)
				cc.Stdin = strings.NewReader(c.text)
				if out, err := cc.CombinedOutput(); err != nil {
					t.Errorf("with %s/nccl.h: %v\n%s", from, err, out)
				}
			}
		})
	}
}
