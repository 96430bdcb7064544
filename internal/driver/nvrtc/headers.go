package nvrtc

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goccl/goccl/internal/setting"
)

// IncludeDirs lists the folders with CUDA's own headers (cuda_runtime.h, cuda_fp16.h and their kin) for the libnvrtc of
// path and major release. The first place that has them is taken: beside the library, as toolkits, conda and the
// packages of PyPI put them; below dirs, which may name site-packages folders or toolkits; then $CUDA_HOME, $CUDA_PATH
// and /usr/local/cuda. The C++ library of CUDA (<cuda/std/…>) comes with them where it is installed.
func IncludeDirs(path string, major int, dirs ...string) []string {
	var bases []string
	for _, p := range []string{path, resolved(path)} {
		if filepath.IsAbs(p) {
			lib := filepath.Dir(p)
			bases = append(bases, filepath.Join(lib, ".."), filepath.Join(lib, "../.."), filepath.Join(lib, "../../.."))
		}
	}
	bases = append(bases, dirs...)
	bases = append(bases, setting.Lenient().Toolkits...)
	for _, base := range append(bases, localToolkit) {
		for _, sub := range []string{"include", "targets/x86_64-linux/include", "targets/sbsa-linux/include",
			wheelInclude(major)} {
			dir := filepath.Join(base, sub)
			if exists(filepath.Join(dir, "cuda_runtime.h")) {
				return append([]string{dir}, cppInclude(dir)...)
			}
		}
	}
	return nil
}

// wheelInclude is where the packages of PyPI of a release put CUDA's headers, below site-packages.
func wheelInclude(major int) string {
	if major < 13 {
		return "nvidia/cuda_runtime/include"
	}
	return fmt.Sprintf("nvidia/cu%d/include", major)
}

// HeadersPackage is the package of PyPI that holds CUDA's headers for a release.
func HeadersPackage(major int) string {
	if major < 13 {
		return fmt.Sprintf("nvidia-cuda-runtime-cu%d", major)
	}
	return "nvidia-cuda-runtime"
}

// cppInclude is the folder of CUDA's C++ library for the headers in dir, where it is not dir itself.
func cppInclude(dir string) []string {
	for _, d := range []string{filepath.Join(dir, "cccl"), filepath.Join(dir, "../../cuda_cccl/include")} {
		if exists(filepath.Join(d, "cuda/std")) {
			return []string{d}
		}
	}
	return nil
}

// localToolkit is where NVIDIA's installers put a toolkit.
const localToolkit = "/usr/local/cuda"

// resolved is path without symbolic links: a toolkit's lib64 is one.
func resolved(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
