//go:build cgo && linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccl/goccl/test/mockcuda"
)

// Windows and device communicators are what kernels compiled with NVIDIA's headers expect, for every version of the
// headers: between threads' ranks, between processes, and on a GPU, which is a mock.
func TestDeviceAPI(t *testing.T) {
	exe := program(t, "device")
	t.Run("group", func(t *testing.T) { run(t, environment(t), exe, "group", "3") })
	t.Run("alone", func(t *testing.T) { run(t, environment(t), exe, "group", "1") })
	t.Run("processes", func(t *testing.T) { processes(t, exe, 3, -1, "process", "3") })
	t.Run("cuda", func(t *testing.T) {
		lib := filepath.Join(t.TempDir(), "libmockcuda.so")
		if err := mockcuda.Build(lib); err != nil {
			t.Skip(err)
		}
		run(t, environment(t, "GOCCL_DEVICE=cuda", "MOCKCUDA_DEVICES=2", mockcuda.Env+"="+lib), exe, "group", "2", "reaches")
	})
}

// cudaInclude is the folder of CUDA's headers, crt's included.
func cudaInclude(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{filepath.Join(os.Getenv("CUDA_HOME"), "include"), "/usr/local/cuda/include",
		"../.tools/nvcc/nvidia/cu13/include"} {
		if _, err := os.Stat(filepath.Join(dir, "crt", "host_config.h")); err == nil {
			return dir
		}
	}
	t.Skip("CUDA's headers are not complete: make nvcc installs them")
	return ""
}

// The layouts of the device API that the library writes equal NVIDIA's headers of each version: as numbers in a file,
// and as the headers themselves where `make device-headers` has put them.
func TestDeviceLayouts(t *testing.T) {
	text, err := os.ReadFile("testdata/device_layouts.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, environment(t), program(t, "device_layouts")); got != string(text) {
		t.Errorf("the layouts of nccl/device_layout.h are\n%s", got)
	}
	for _, block := range strings.Split("\n"+strings.TrimSuffix(string(text), "\n"), "\nversion ")[1:] {
		code, _, _ := strings.Cut(block, "\n")
		version := code[:1] + "." + strings.TrimLeft(code[1:3], "0") + "." + strings.TrimLeft(code[3:], "0")
		t.Run(version, func(t *testing.T) {
			headers := filepath.Join("../.tools/nccl", version, "include")
			if _, err := os.Stat(headers); err != nil {
				t.Skip("make device-headers downloads NVIDIA's headers: ", err)
			}
			exe := filepath.Join(t.TempDir(), "layouts")
			if out, err := exec.Command("g++", "-std=c++17", "-w", "-O0", "-I"+headers, "-I"+cudaInclude(t), "-o", exe,
				"testdata/nvidia_layouts.cc").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got := run(t, os.Environ(), exe); got != "version "+block+"\n" {
				t.Errorf("NVIDIA's headers have\n%s", got)
			}
		})
	}
}

// Kernels of every version's headers compile and find the library's functions. They run on GPUs only.
func TestDevicePrograms(t *testing.T) {
	if os.Getenv("GOCCL_FULL") == "" {
		t.Skip("takes a minute: GOCCL_FULL=1")
	}
	compiler, lib := nvcc(t)
	folders, _ := filepath.Glob("../.tools/nccl/*/include")
	if len(folders) == 0 {
		t.Skip("make device-headers downloads NVIDIA's headers")
	}
	for _, headers := range folders {
		t.Run(filepath.Base(filepath.Dir(headers)), func(t *testing.T) {
			gin := filepath.Join(headers, "nccl_device/gin/gdaki")
			if _, err := os.Stat(gin); err == nil {
				if _, err := os.Stat(filepath.Join(gin, "doca_gpunetio")); err != nil {
					t.Skip("the wheel lacks headers: ", err)
				}
			}
			cc := exec.Command(compiler, "-std=c++17", "-arch=sm_90", "-I"+headers, "-o", filepath.Join(t.TempDir(), "lsa"),
				"testdata/devapi/lsa.cu", "-L"+libraries(t), "-l:libnccl.so.2")
			cc.Env = append(os.Environ(), "LIBRARY_PATH="+lib)
			if out, err := cc.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}
