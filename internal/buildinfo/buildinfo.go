// Package buildinfo describes the build of this program. Every command that prints or records a result uses it, so that
// a figure can be traced to a commit.
package buildinfo

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// version is set by the linker: -ldflags "-X github.com/goccl/goccl/internal/buildinfo.version=…".
var version string

// Info describes the build of the running program.
type Info struct {
	Version string `json:"version"` // a tag, a module version or "devel"
	// hexadecimal; "-dirty" is appended when the tree had changes; "unknown" when it is not recorded
	Commit string `json:"commit"`
	Go     string `json:"go"`
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Cgo    bool   `json:"cgo"`
}

// Read returns the description of this build.
func Read() Info {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		bi = &debug.BuildInfo{}
	}
	return read(bi, version)
}

func read(bi *debug.BuildInfo, linked string) Info {
	i := Info{Version: "devel", Commit: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	dirty := false
	for _, s := range bi.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		case "CGO_ENABLED":
			i.Cgo = s.Value == "1"
		}
	}
	if dirty && i.Commit != "unknown" {
		i.Commit += "-dirty"
	}
	if v := bi.Main.Version; v != "" && v != "(devel)" {
		i.Version = v
	}
	if linked != "" {
		i.Version = linked
		// The linked version is the output of `git describe --always --dirty`: a tag, a tag with -N-gCOMMIT, or a
		// commit.
		if i.Commit == "unknown" {
			i.Commit = linked
			if at := strings.LastIndex(linked, "-g"); at >= 0 {
				i.Commit = linked[at+2:]
			}
		}
	}
	return i
}
