package nvrtc_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goccl/goccl/internal/driver/nvrtc"
)

// TestIncludeDirs lays out CUDA as its distributions do, and looks for its headers from where the library lies.
func TestIncludeDirs(t *testing.T) {
	for _, c := range []struct {
		name  string
		lib   string   // below the root
		files []string // headers, below the root
		major int
		dirs  []string // told to the search, below the root
		home  string   // CUDA_HOME
		want  []string
	}{
		{name: "wheels of CUDA 12", lib: "nvidia/cuda_nvrtc/lib/libnvrtc.so.12", major: 12,
			files: []string{"nvidia/cuda_nvrtc/include/nvrtc.h", "nvidia/cuda_runtime/include/cuda_runtime.h",
				"nvidia/cuda_cccl/include/cuda/std/cstdint"},
			want: []string{"nvidia/cuda_runtime/include", "nvidia/cuda_cccl/include"}},
		{name: "wheels of CUDA 13", lib: "nvidia/cu13/lib/libnvrtc.so.13", major: 13,
			files: []string{"nvidia/cu13/include/cuda_runtime.h", "nvidia/cu13/include/cccl/cuda/std/cstdint",
				"nvidia/cuda_runtime/include/cuda_runtime.h"},
			want: []string{"nvidia/cu13/include", "nvidia/cu13/include/cccl"}},
		{name: "torch's own library", lib: "torch/lib/libnvrtc.so.12", major: 12,
			files: []string{"nvidia/cuda_runtime/include/cuda_runtime.h"}, want: []string{"nvidia/cuda_runtime/include"}},
		{name: "toolkit", lib: "cuda/lib64/libnvrtc.so.12", files: []string{"cuda/include/cuda_runtime.h"}, major: 12,
			want: []string{"cuda/include"}},
		{name: "conda", lib: "env/lib/libnvrtc.so.12", files: []string{"env/targets/x86_64-linux/include/cuda_runtime.h"},
			major: 12,
			want:  []string{"env/targets/x86_64-linux/include"}},
		{name: "Debian's package", lib: "usr/lib/x86_64-linux-gnu/libnvrtc.so.12",
			files: []string{"usr/include/cuda_runtime.h"}, major: 12,
			want: []string{"usr/include"}},
		{name: "library elsewhere, headers in site-packages", lib: "opt/a/b/c/libnvrtc.so.12", major: 12,
			dirs:  []string{"site-packages"},
			files: []string{"site-packages/nvidia/cuda_runtime/include/cuda_runtime.h"},
			want:  []string{"site-packages/nvidia/cuda_runtime/include"}},
		{name: "CUDA_HOME", lib: "opt/a/b/c/libnvrtc.so.12", files: []string{"cuda-12.8/include/cuda_runtime.h"}, major: 12,
			home: "cuda-12.8",
			want: []string{"cuda-12.8/include"}},
		{name: "beside the library before CUDA_HOME", lib: "nvidia/cuda_nvrtc/lib/libnvrtc.so.12", major: 12, home: "cuda",
			files: []string{"cuda/include/cuda_runtime.h", "nvidia/cuda_runtime/include/cuda_runtime.h"},
			want:  []string{"nvidia/cuda_runtime/include"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for _, f := range append(c.files, c.lib) {
				path := filepath.Join(root, f)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			below := func(names []string) (out []string) {
				for _, n := range names {
					out = append(out, filepath.Join(root, n))
				}
				return out
			}
			t.Setenv("CUDA_PATH", "")
			t.Setenv("CUDA_HOME", "")
			if c.home != "" {
				t.Setenv("CUDA_HOME", filepath.Join(root, c.home))
			}
			if got, want := nvrtc.IncludeDirs(filepath.Join(root, c.lib), c.major, below(c.dirs)...),
				below(c.want); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// TestPathOfALibraryThatTheLinkerFound: a bare name is no place to look for headers from.
func TestPathIsAFile(t *testing.T) {
	if path := open(t).Path(); !filepath.IsAbs(path) {
		t.Errorf("Path() = %q: want the file", path)
	}
}
