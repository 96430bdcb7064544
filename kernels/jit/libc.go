package jit

import (
	"embed"
	"sync"
)

//go:embed libc
var libcFS embed.FS

// libc returns stand-ins, by include name, for headers of the C library that sources written for nvcc include: NVRTC has no such library, but the functions
// that run on a GPU are built into it. Those of the fixed-width types are package kernels' own.
var libc = sync.OnceValue(func() map[string]string {
	out := make(map[string]string)
	entries, err := libcFS.ReadDir("libc")
	if err != nil {
		panic("jit: embedded headers: " + err.Error()) // an embed.FS in memory has no way to fail
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
