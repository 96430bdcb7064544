// Count prints the lines of production code by top folder: Go, CUDA, C and Python that a user's program runs, without
// tests and what supports them, benchmarks, examples, linters and generated files.
//
// Usage: count [folder]
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	kinds     = []string{".go", ".cu", ".cuh", ".h", ".hpp", ".c", ".cpp", ".py"}
	skipped   = []string{"build", "bench", "examples", "hosttest", "test", "testdata", "tests", "tools", "tutorialtest"}
	generated = regexp.MustCompile(`(?m)^(?://|#|/\*|;).*[Gg]enerated .*DO NOT EDIT`)
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	lines := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || slices.Contains(skipped, name)) {
			return filepath.SkipDir
		}
		if d.IsDir() || !slices.Contains(kinds, filepath.Ext(name)) || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || generated.Match(text[:min(len(text), 2000)]) {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		top, _, inside := strings.Cut(rel, string(filepath.Separator))
		if !inside {
			top = "(root)"
		}
		lines[top] += bytes.Count(text, []byte("\n"))
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1)
	}
	all := 0
	most := func(a, b string) int { return cmp.Compare(lines[b], lines[a]) }
	for _, top := range slices.SortedFunc(maps.Keys(lines), most) {
		all += lines[top]
		fmt.Printf("%7d %s\n", lines[top], top)
	}
	fmt.Printf("%7d in all\n", all)
}
