package kernels

import (
	"embed"
	"io/fs"
	"maps"
	"strings"
	"sync"
)

//go:embed include
var includeFS embed.FS

var headers = sync.OnceValue(func() map[string]string {
	out := make(map[string]string)
	err := fs.WalkDir(includeFS, "include", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".txt") {
			return err
		}
		text, err := includeFS.ReadFile(path)
		name := strings.TrimPrefix(path, "include/")
		out[strings.TrimPrefix(name, "rtc/")] = string(text)
		return err
	})
	if err != nil {
		panic("kernels: embedded headers: " + err.Error()) // unreachable: an embed.FS cannot fail
	}
	return out
})

// Headers returns the public device headers by the name that #include uses ("goccl/memory_channel.cuh",
// "mscclpp/packet_device.hpp", …), for NVRTC: they include stand-ins for <cstdint>, <stdint.h>, <cstddef> and
// <stddef.h>. The caller owns the map.
func Headers() map[string]string { return maps.Clone(headers()) }
