package jit

import (
	"embed"
	"sync"
)

//go:embed libc
var libcFS embed.FS

// libc returns stand-ins, by include name, for the C library headers that sources for nvcc include. NVRTC has no C
// library headers, but the functions that run on a GPU are built in. Package kernels provides the headers of the
// fixed-width types.
var libc = sync.OnceValue(func() map[string]string {
	out := make(map[string]string)
	entries, err := libcFS.ReadDir("libc")
	if err != nil {
		panic("jit: embedded headers: " + err.Error()) // unreachable: an embed.FS cannot fail
	}
	for _, e := range entries {
		text, err := libcFS.ReadFile("libc/" + e.Name())
		if err != nil {
			panic("jit: embedded headers: " + err.Error())
		}
		out[e.Name()] = string(text)
	}
	return out
})
