package nvrtc

import (
	"os"
	"path/filepath"

	"github.com/goccl/goccl/internal/setting"
)

// sonames are tried through the dynamic linker's own path, newest first.
var sonames = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}

// wheelDirs is where the packages of PyPI put the library, below a folder of site-packages (or below an unpacked
// wheel).
var wheelDirs = []string{"", "lib", "lib64", "nvidia/cuda_nvrtc/lib", "nvidia/cu13/lib", "torch/lib"}

// Candidates lists the files and names that Open tries, in order: $GOCCL_NVRTC alone when it is set; otherwise every
// libnvrtc below dirs, which may name a library file, a folder that holds one, a site-packages folder or an unpacked
// wheel; then the folders of $CUDA_HOME and $CUDA_PATH, the dynamic linker's path and /usr/local/cuda.
func Candidates(dirs ...string) []string {
	env := setting.Lenient()
	if p := env.NVRTC; p != "" {
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			return inDir(p)
		}
		return []string{p}
	}
	var out []string
	for _, d := range dirs {
		if info, err := os.Stat(d); err == nil && !info.IsDir() {
			out = append(out, d)
			continue
		}
		out = append(out, inDir(d)...)
	}
	for _, d := range env.Toolkits {
		out = append(out, inDir(d)...)
	}
	out = append(out, sonames...)
	return append(out, inDir(localToolkit)...)
}

func inDir(dir string) []string {
	var out []string
	for _, sub := range wheelDirs {
		for _, name := range sonames {
			p := filepath.Join(dir, sub, name)
			if exists(p) {
				out = append(out, p)
			}
		}
	}
	return out
}
