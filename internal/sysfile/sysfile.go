// Package sysfile reads the small files of /sys and /proc. Files may be missing: then the fact is not known. Its
// functions may be called from any goroutine.
package sysfile

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Root is the folder that paths begin at. Paths are given by their elements.
type Root string

// Host is this host.
const Host Root = "/"

func (r Root) path(elem []string) string { return filepath.Join(string(r), filepath.Join(elem...)) }

// Read returns the text of a file without the space around it, "" if it is not known.
func (r Root) Read(elem ...string) string {
	b, _ := os.ReadFile(r.path(elem))
	return strings.TrimSpace(string(b))
}

// Number returns the number in a file, or def.
func (r Root) Number(def int, elem ...string) int {
	n, err := strconv.Atoi(r.Read(elem...))
	if err != nil {
		return def
	}
	return n
}

// Names lists a folder in order.
func (r Root) Names(elem ...string) []string {
	entries, _ := os.ReadDir(r.path(elem))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// Resolve returns the path of a file without symbolic links, "" if it is not known.
func (r Root) Resolve(elem ...string) string {
	path, _ := filepath.EvalSymlinks(r.path(elem))
	return path
}
