// Again prints the arguments of a go test that runs what a run of packages under the race detector leaves out: the
// tests that are shorter with -short, or that check less in a program of the race detector.
//
// Usage, in the root of the repository: again DIR... A directory includes the ones below it.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	args, err := arguments(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "again:", err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(args, " "))
}

// arguments returns -run with the names of the tests, and their packages.
func arguments(roots []string) ([]string, error) {
	// Functions that ask for -short: also the ones that tests call for help.
	asking := map[string]bool{"testing.Short": true}
	if err := eachFolder("test", func(dir string) error {
		names, err := reaching(dir, false, asking)
		for _, name := range names {
			asking[filepath.Base(dir)+"."+name] = true
		}
		return err
	}); err != nil {
		return nil, err
	}
	var tests, packages []string
	for _, root := range roots {
		if err := eachFolder(root, func(dir string) error {
			names, err := reaching(dir, true, asking)
			names = slices.DeleteFunc(names, func(s string) bool { return !strings.HasPrefix(s, "Test") || s == "TestMain" })
			if slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, "TestOnMock") }) {
				names = append(names, "TestMock") // runs them in a process with the mock driver: commtest.RunOnMock
			}
			if len(names) > 0 {
				tests, packages = append(tests, names...), append(packages, "./"+filepath.ToSlash(dir))
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("no test of %v is shorter under the race detector", roots)
	}
	slices.Sort(tests)
	return append([]string{"-run", "'^(" + strings.Join(slices.Compact(tests), "|") + ")$'"}, packages...), nil
}

// eachFolder calls f for root and every folder below it.
func eachFolder(root string, f func(dir string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return err
		case d.Name() == "testdata":
			return filepath.SkipDir
		}
		return f(path)
	})
}
