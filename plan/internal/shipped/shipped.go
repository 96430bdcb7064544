// Package shipped serves descriptions in JSON that are part of the binary, by name.
package shipped

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

// Folder is a folder of files NAME.json.
type Folder struct {
	Files embed.FS
	Path  string
}

// Names returns the names in order.
func (f Folder) Names() []string {
	entries, err := f.Files.ReadDir(f.Path)
	if err != nil {
		panic(err) // the files are part of the binary
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".json"))
	}
	slices.Sort(out)
	return out
}

// Read returns the file of that name. What describes the file in an error of the class invalid.
func (f Folder) Read(name, what string, invalid error) ([]byte, error) {
	data, err := f.Files.ReadFile(f.Path + "/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("no %s %q, use one of %s or a file: %w", what, name, strings.Join(f.Names(), ", "), invalid)
	}
	return data, nil
}
