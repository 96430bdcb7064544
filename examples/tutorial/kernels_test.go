package tutorial_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccl/goccl/examples/tutorial"
	"github.com/goccl/goccl/kernels/jit"
)

// The CUDA file that a tutorial names compiles when it is copied, and has the kernels that the tutorial launches.
func TestOwnKernels(t *testing.T) {
	t.Setenv("GOCCL_NVRTC", "")
	if libs, _ := filepath.Glob("../../.tools/nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.*"); len(libs) > 0 {
		t.Setenv("GOCCL_NVRTC", libs[0])
	}
	t.Setenv("GOCCL_CACHE_DIR", t.TempDir())
	named := regexp.MustCompile(`kernels/examples/(\w+\.cu)`)
	launched := regexp.MustCompile(`"(tutorial_\w+)"`)
	mains, err := filepath.Glob("../0*/main.go")
	if err != nil || len(mains) < 6 {
		t.Fatalf("tutorials: %v, %v", mains, err)
	}
	images := map[string][]byte{}
	for _, main := range mains {
		text, err := os.ReadFile(main)
		if err != nil {
			t.Fatal(err)
		}
		m := named.FindStringSubmatch(string(text))
		if m == nil {
			t.Errorf("%s does not say where its kernels are", main)
			continue
		}
		if images[m[1]] == nil {
			own := filepath.Join(t.TempDir(), "own.cu")
			copyFile(t, filepath.Join("../../kernels/examples", m[1]), own)
			images[m[1]], err = tutorial.Compile(own, 9, 0)
			if errors.Is(err, jit.ErrUnavailable) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatalf("%s: %v", m[1], err)
			}
		}
		for _, k := range launched.FindAllStringSubmatch(string(text), -1) {
			if !bytes.Contains(images[m[1]], []byte(k[1])) {
				t.Errorf("%s launches %s, which is not in %s", main, k[1], m[1])
			}
		}
	}
	own := filepath.Join(t.TempDir(), "broken.cu")
	if err := os.WriteFile(own, []byte("nonsense"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tutorial.Compile(own, 9, 0); err == nil || !strings.Contains(err.Error(), "broken.cu") {
		t.Errorf("a source that does not compile: %v", err)
	}
	if _, err := tutorial.Open("host", 0, own); err == nil || !strings.Contains(err.Error(), "-device cuda") {
		t.Errorf("CUDA on the host device: %v", err)
	}
}
