// Nocgo checks the types of packages as they are without cgo. A whole build without cgo would compile Go's library and
// every package another time.
//
// Usage, in the root of the repository: nocgo packages
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	list, err := load("", os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "nocgo:", err)
		os.Exit(1)
	}
	if packages.PrintErrors(list) != 0 {
		os.Exit(1)
	}
}

// load checks the packages in a folder, and all that they import.
func load(dir string, patterns []string) ([]*packages.Package, error) {
	return packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes,
		Dir: dir,
		Env: append(os.Environ(), "CGO_ENABLED=0"),
	}, patterns...)
}
