//go:build cgo && linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/test/mockcuda"
)

// headers gathers the installed headers, as `make headers` does.
func headers(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("make", "-C", "..", "headers", "INCLUDE="+dir).CombinedOutput(); err != nil {
		t.Fatalf("make headers: %v\n%s", err, out)
	}
	return dir
}

func compile(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// libmscclpp.so has every function of the core, and nothing else.
func TestMscclppSymbols(t *testing.T) {
	dir := libraries(t)
	core, lazy := symbols(t, filepath.Join(dir, "libgoccl.so")), symbols(t, filepath.Join(dir, "libmscclpp.so"))
	if !slices.Equal(core, lazy) {
		t.Errorf("libmscclpp.so exports\n%v\nlibgoccl.so\n%v", lazy, core)
	}
	out := run(t, os.Environ(), "readelf", "-dW", filepath.Join(dir, "libmscclpp.so"))
	if strings.Contains(out, "libgoccl") {
		t.Errorf("libmscclpp.so must load the core at its first use, so that programs may fork before:\n%s", out)
	}
}

// cppHeaders lists the headers of C++ programs by the names that they include.
func cppHeaders(t *testing.T, include string) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"mscclpp/*.hpp", "mscclpp/ext/*/*.h*", "goccl/*.hpp"} {
		files, err := filepath.Glob(filepath.Join(include, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d headers, %v", pattern, len(files), err)
		}
		for _, f := range files {
			name, _ := filepath.Rel(include, f)
			names = append(names, name)
		}
	}
	return names
}

// Every header compiles without a warning by C++17 and C++20: all together, and each alone with GOCCL_FULL=1.
func TestCppHeaders(t *testing.T) {
	include := headers(t)
	names := cppHeaders(t, include)
	for _, compiler := range []string{"g++", "clang++"} {
		if _, err := exec.LookPath(compiler); err != nil {
			t.Logf("without %s: %v", compiler, err)
			continue
		}
		units := [][]string{names}
		if os.Getenv("GOCCL_FULL") != "" {
			for _, n := range names {
				units = append(units, []string{n})
			}
		}
		for _, standard := range []string{"c++17", "c++20"} {
			for _, unit := range units {
				var source strings.Builder
				for _, n := range unit {
					fmt.Fprintf(&source, "#include <%s>\n", n)
				}
				cc := exec.Command(compiler, "-x", "c++", "-std="+standard, "-Wall", "-Wextra", "-Werror",
					"-fsyntax-only", "-I"+include, "-")
				cc.Stdin = strings.NewReader(source.String())
				if out, err := cc.CombinedOutput(); err != nil {
					t.Errorf("%s -std=%s of %v: %v\n%s", compiler, standard, unit, err, out)
				}
			}
		}
	}
}

// An older standard gets an error that names the one it needs.
func TestCppStandards(t *testing.T) {
	include := headers(t)
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip(err)
	}
	const program = `#include <mscclpp/memory_channel.hpp>
void f(mscclpp::MemoryChannelDeviceHandle& h) { h.put(0, 0, 8, 0, 1); }`
	for standard, want := range map[string]string{"c++14": "need C++17", "c++17": "need C++20", "c++20": ""} {
		cc := exec.Command("g++", "-x", "c++", "-std="+standard, "-fsyntax-only", "-w", "-I"+include, "-")
		cc.Stdin = strings.NewReader(program)
		out, err := cc.CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", standard, err, out)
		}
	}
}

func cppProgram(t *testing.T, include, dir, exe, source, standard string) {
	t.Helper()
	compile(t, "g++", "-std="+standard, "-Wall", "-Wextra", "-Werror", "-I"+include, "-o", exe, source,
		"-L"+dir, "-lmscclpp", "-lpthread")
}

// Programs in C++ on the host device. Those that fork use the library in the children alone.
func TestCppPrograms(t *testing.T) {
	include, dir := headers(t), libraries(t)
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip(err)
	}
	programs := [][2]string{{"channels", "c++20"}, {"host", "c++17"}, {"algorithm", "c++17"}}
	if os.Getenv("GOCCL_FULL") != "" {
		programs = append(programs, [][2]string{{"ping_pong", "c++17"}, {"ping_pong", "c++20"}, {"host", "c++20"}}...)
	}
	for _, p := range programs {
		name, standard := p[0], p[1]
		t.Run(name+" "+standard, func(t *testing.T) {
			t.Parallel()
			exe := filepath.Join(t.TempDir(), name)
			cppProgram(t, include, dir, exe, filepath.Join("testdata", "cpp", name+".cpp"), standard)
			out := run(t, environment(t), exe, "lo:127.0.0.1:"+freePort(t), "../plan/dsl/testdata/allreduce_ll.json")
			if !strings.Contains(out, "Succeed!") {
				t.Error(out)
			}
		})
	}
}

// The program of docs/cpp.md.
func TestCppDocument(t *testing.T) {
	include, dir := headers(t), libraries(t)
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip(err)
	}
	page, err := os.ReadFile("../docs/cpp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```cpp\n")
	program, _, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatal("docs/cpp.md has no program")
	}
	source, exe := filepath.Join(t.TempDir(), "example.cpp"), filepath.Join(t.TempDir(), "example")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	cppProgram(t, include, dir, exe, source, "c++20")
	out := run(t, environment(t), exe)
	for _, line := range []string{"rank 0 has 43\n", "rank 1 has 42\n"} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in %s", line, out)
		}
	}
}

// nvcc finds the compiler of CUDA_HOME, of the search path, or of `make nvcc`.
func nvcc(t *testing.T) (program, lib string) {
	t.Helper()
	found, _ := exec.LookPath("nvcc")
	home := filepath.Join(os.Getenv("CUDA_HOME"), "bin", "nvcc")
	for _, p := range []string{home, found, "../.tools/nvcc/nvidia/cu13/bin/nvcc"} {
		if _, err := os.Stat(p); err != nil || p == "" {
			continue
		}
		p, err := filepath.Abs(p)
		if err != nil {
			t.Fatal(err)
		}
		home := filepath.Dir(filepath.Dir(p))
		for _, lib := range []string{"lib64", "lib"} {
			if so, _ := filepath.Glob(filepath.Join(home, lib, "libcudart.so.13*")); len(so) > 0 {
				return p, filepath.Join(home, lib)
			}
		}
		t.Logf("%s is not of CUDA 13, whose runtime the test has a mock of", p)
	}
	t.Skip("there is no nvcc of CUDA 13: make nvcc installs one")
	return "", ""
}

// Programs with kernels, built by nvcc with one line, on the mock driver: kernels are launched, and do not run.
func TestCppCUDA(t *testing.T) {
	compiler, lib := nvcc(t)
	include, dir := headers(t), libraries(t)
	mocks := t.TempDir()
	if err := mockcuda.Build(filepath.Join(mocks, "libmockcuda.so")); err != nil {
		t.Skip(err)
	}
	compile(t, "gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
		"-Wl,-soname,libcudart.so.13", "-Wl,--version-script=testdata/cpp/mockcudart.map",
		"-o", filepath.Join(mocks, "libcudart.so.13"), "testdata/cpp/mockcudart.c", "-ldl", "-lpthread")
	programs := map[string][]string{"gpu_ping_pong": {"gpuKernel0", "gpuKernel1"}}
	if os.Getenv("GOCCL_FULL") != "" {
		programs["mesh"] = []string{"exchange", "exchange"}
		programs["channels"] = []string{"put", "get", "packets", "port", "reduce"}
	}
	for name, kernels := range programs {
		t.Run(name, func(t *testing.T) {
			exe, launches := filepath.Join(t.TempDir(), name), filepath.Join(t.TempDir(), "launches")
			source := filepath.Join("testdata", "cpp", name+".cu")
			cc := exec.Command(compiler, "-arch=sm_90", "-cudart", "shared", "-o", exe, source, "-lmscclpp")
			cc.Env = append(os.Environ(), "CPATH="+include, "LIBRARY_PATH="+dir+":"+lib)
			if out, err := cc.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", cc.Args, err, out)
			}
			env := append(environment(t), "GOCCL_DEVICE=cuda", "MOCKCUDART_LAUNCHES="+launches,
				mockcuda.Env+"="+filepath.Join(mocks, "libmockcuda.so"), "LD_LIBRARY_PATH="+mocks+":"+dir)
			if out := run(t, env, exe, "launch", freePort(t)); !strings.Contains(out, "Succeed!") {
				t.Error(out)
			}
			log, err := os.ReadFile(launches)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range kernels {
				if !strings.Contains(string(log), fmt.Sprintf("_Z%d%s", len(k), k)) {
					t.Errorf("%s was not launched: %s", k, log)
				}
			}
		})
	}
}
