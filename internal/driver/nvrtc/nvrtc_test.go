package nvrtc_test

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/goccl/goccl/internal/driver/nvrtc"
)

// tools is where `make tools` unpacks the pinned compiler.
const tools = "../../../.tools/nvrtc"

func open(t *testing.T) *nvrtc.Library {
	t.Helper()
	lib, err := nvrtc.Open(tools)
	if errors.Is(err, nvrtc.ErrUnavailable) {
		t.Skipf("no compiler here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

func TestCompileMakesCubinAndPTX(t *testing.T) {
	lib := open(t)
	if lib.Version().Build == "" || lib.Version().Major < 11 {
		t.Fatalf("version %+v: want a release and a build", lib.Version())
	}
	archs := lib.Archs()
	arch := archs[0]
	p := nvrtc.Program{
		Source:  "#include <goccl/answer.cuh>\nextern \"C\" __global__ void k(int* x) { *x = answer(); }",
		Name:    "k.cu",
		Headers: map[string]string{"goccl/answer.cuh": "#pragma once\n__device__ inline int answer() { return 42; }\n"},
		Options: []string{fmt.Sprintf("-arch=sm_%d", arch), "-std=c++17"},
	}
	res, err := lib.Compile(p)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	if !strings.Contains(string(res.PTX), ".visible .entry k(") {
		t.Errorf("PTX has no entry k:\n%s", res.PTX)
	}
	if !bytes.HasPrefix(res.CUBIN, []byte(elf.ELFMAG)) || !bytes.Contains(res.CUBIN, []byte(".text.k")) {
		t.Error("cubin is not an ELF file with a section .text.k")
	}
	again, err := lib.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(res.CUBIN, again.CUBIN) || !bytes.Equal(res.PTX, again.PTX) {
		t.Error("two compilations of one program differ")
	}
}

func TestCompileVirtualArchHasNoCubin(t *testing.T) {
	lib := open(t)
	res, err := lib.Compile(nvrtc.Program{Source: "extern \"C\" __global__ void k() {}", Name: "k.cu",
		Options: []string{fmt.Sprintf("-arch=compute_%d", lib.Archs()[0])}})
	if err != nil {
		t.Fatal(err)
	}
	if res.CUBIN != nil || len(res.PTX) == 0 {
		t.Errorf("cubin %d bytes, PTX %d bytes: want none and some", len(res.CUBIN), len(res.PTX))
	}
}

func TestCompileErrorCarriesTheLog(t *testing.T) {
	lib := open(t)
	_, err := lib.Compile(nvrtc.Program{Source: "__global__ void k() { undeclared = 1; }", Name: "bad.cu"})
	var ce *nvrtc.CompileError
	if !errors.As(err, &ce) {
		t.Fatalf("error %v: want a *CompileError", err)
	}
	if !strings.Contains(ce.Error(), "bad.cu") || !strings.Contains(ce.Error(), "undeclared") ||
		strings.Contains(ce.Error(), "\n") {
		t.Errorf("Error() = %q: want one line with the file and the identifier", ce.Error())
	}
	if long := fmt.Sprintf("%+v", err); !strings.Contains(long, ce.Log) || len(ce.Log) == 0 {
		t.Errorf("%%+v = %q: want the whole log", long)
	}
}

func TestCompileConcurrently(t *testing.T) {
	lib := open(t)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			name := fmt.Sprintf("k%d", i)
			res, err := lib.Compile(nvrtc.Program{Source: "extern \"C\" __global__ void " + name + "() {}", Name: name + ".cu"})
			if err == nil && !strings.Contains(string(res.PTX), name) {
				err = fmt.Errorf("PTX of %s lacks it", name)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

func TestOpenSaysWhatWasTried(t *testing.T) {
	missing := t.TempDir() + "/libnvrtc.so.12"
	t.Setenv("GOCCL_NVRTC", missing)
	_, err := nvrtc.Open(tools)
	if !errors.Is(err, nvrtc.ErrUnavailable) {
		t.Fatalf("error %v: want ErrUnavailable", err)
	}
	if strings.Contains(err.Error(), "without cgo") {
		return
	}
	if !strings.Contains(err.Error(), missing) {
		t.Errorf("error %q does not name %s", err, missing)
	}
}

func TestCandidatesFindAWheel(t *testing.T) {
	t.Setenv("GOCCL_NVRTC", "")
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/nvidia/cuda_nvrtc/lib", 0o755); err != nil {
		t.Fatal(err)
	}
	want := dir + "/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"
	if err := os.WriteFile(want, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := nvrtc.Candidates(dir); len(got) == 0 || got[0] != want {
		t.Errorf("Candidates = %v: want %s first", got, want)
	}
}
