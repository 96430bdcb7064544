package jit

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var includeLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]`)

// included returns the files that a source includes from the folders of its options, and what these include in turn, by
// path. Conditions are not evaluated: a file may be listed that the compiler skips. A file whose name a macro makes is
// not found.
func included(source string, options []string) map[string]string {
	found := map[string]string{}
	var folders []string
	var scan func(text, beside string)
	read := func(paths ...string) {
		for _, path := range paths {
			if _, seen := found[path]; seen {
				return
			}
			if text, err := os.ReadFile(path); err == nil { //nolint:gosec // the compiler reads it as well
				found[path] = string(text)
				scan(string(text), filepath.Dir(path))
				return
			}
		}
	}
	scan = func(text, beside string) {
		for _, m := range includeLine.FindAllStringSubmatch(text, -1) {
			var paths []string
			for _, dir := range slices.Concat([]string{beside}, folders) {
				if dir != "" {
					paths = append(paths, filepath.Join(dir, m[1]))
				}
			}
			read(paths...)
		}
	}
	folders = valuesOf(options, "-I", "--include-path", "-include-path")
	for _, path := range valuesOf(options, "--pre-include", "-pre-include", "-include") {
		read(path)
	}
	scan(source, "")
	return found
}

// valuesOf returns the values of an option: behind its name, behind "=", or in the next argument.
func valuesOf(options []string, names ...string) (values []string) {
	for i, o := range options {
		for _, name := range names {
			rest, ok := strings.CutPrefix(o, name)
			switch {
			case !ok:
			case rest == "" && i+1 < len(options):
				values = append(values, options[i+1])
			case strings.HasPrefix(rest, "="):
				values = append(values, rest[1:])
			case name == "-I":
				values = append(values, rest)
			}
		}
	}
	return values
}
