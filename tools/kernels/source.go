package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// options are given to every compilation after -arch. Nothing that varies between machines may enter: no line
// information, no paths. Contraction to FMA stays on, as is CUDA's default: results are equal on all ranks, because all
// run the same code in the same order.
var options = []string{"-std=c++17", "--ptxas-options=-v"}

// architecture is one image to make: a cubin for sm, and its PTX when that is what later devices run.
type architecture struct {
	sm  int
	ptx bool
}

// A cubin serves every later minor revision of its major, so PTX is needed only above the last cubin (11.x, 12.x). The
// PTX of compute_90 serves there.
var architectures = []architecture{{sm: 80}, {sm: 90, ptx: true}, {sm: 100}}

// group is one folder of sources, in the form that the compiler gets.
type group struct {
	name    string
	dir     string
	files   []string // .cu files, sorted
	unit    string   // the translation unit: one #include per file
	headers map[string]string
	hash    string
	rebuild bool // by a check
}

// findRoot is the folder of package kernels: given, or the working directory (under go generate), or kernels below it.
func findRoot(given string) (string, error) {
	for _, dir := range []string{given, ".", "kernels"} {
		if dir == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "include", "goccl")); err == nil {
			return filepath.Abs(dir)
		}
	}
	return "", fmt.Errorf("no include/goccl here: run from the repository or from kernels, or give -root")
}

// toolsDir is where install-nvrtc.sh unpacks the compiler.
func toolsDir(root string) string { return filepath.Join(filepath.Dir(root), ".tools", "nvrtc") }

// readHeaders returns every file below include by the name that #include uses.
func readHeaders(root string) (map[string]string, error) {
	headers := make(map[string]string)
	include := filepath.Join(root, "include")
	err := filepath.WalkDir(include, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".txt" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(include, path)
		headers[strings.TrimPrefix(filepath.ToSlash(name), "rtc/")] = string(text)
		return err
	})
	return headers, err
}

// findGroups reads every folder of root that holds .cu files.
func findGroups(root string) ([]*group, error) {
	headers, err := readHeaders(root)
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(root, "*", "*.cu"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var groups []*group
	for _, path := range paths {
		dir := filepath.Dir(path)
		if len(groups) == 0 || groups[len(groups)-1].dir != dir {
			groups = append(groups, &group{name: filepath.Base(dir), dir: dir})
		}
		g := groups[len(groups)-1]
		g.files = append(g.files, filepath.Base(path))
	}
	if err := addSources(headers, root); err != nil {
		return nil, err
	}
	for _, g := range groups {
		g.read(headers)
	}
	return groups, nil
}

// addSources makes the groups' own files, .cu and .cuh, includable as <group>/<file>, from every group.
func addSources(headers map[string]string, root string) error {
	for _, pattern := range []string{"*.cu", "*.cuh"} {
		paths, err := filepath.Glob(filepath.Join(root, "*", pattern))
		if err != nil {
			return err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			headers[filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path)] = string(text)
		}
	}
	return nil
}

// read fills the unit, the headers and the hash.
func (g *group) read(all map[string]string) {
	var unit strings.Builder
	for _, f := range g.files {
		fmt.Fprintf(&unit, "#include <%s/%s>\n", g.name, f)
	}
	g.unit = unit.String()
	g.headers = closure(g.unit, all)
	g.hash = hashOf(g.unit, g.headers)
}

var reInclude = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]`)

// closure keeps the headers that the unit can reach, so that an unrelated header leaves the group's hash alone.
func closure(unit string, all map[string]string) map[string]string {
	reached := make(map[string]string)
	var visit func(text string)
	visit = func(text string) {
		for _, m := range reInclude.FindAllStringSubmatch(text, -1) {
			name := m[1]
			if _, done := reached[name]; done {
				continue
			}
			if body, ok := all[name]; ok {
				reached[name] = body
				visit(body)
			}
		}
	}
	visit(unit)
	return reached
}

var reComment = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)

// code is what the compiler sees of a source: without comments, indentation and empty lines, so that a better comment
// costs no rebuild. Images hold no line numbers.
func code(text string) string {
	var b strings.Builder
	for line := range strings.Lines(reComment.ReplaceAllString(text, " ")) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func hashOf(unit string, headers map[string]string) string {
	h := sha256.New()
	part := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	fmt.Fprintf(h, "%v%v", options, architectures)
	part(unit)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		part(name)
		part(code(headers[name]))
	}
	return hex.EncodeToString(h.Sum(nil))
}
