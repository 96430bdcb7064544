package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var definition = regexp.MustCompile(`(?m)^((?:int |const char \*)goccl\w+\([^)]*\)) \{`)

// declarations returns the header zz_declared.h of a folder: the functions that its C files define for Go.
func declarations(folder string) ([]byte, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.c"))
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(notice + "\n")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for _, m := range definition.FindAllStringSubmatch(string(text), -1) {
			b.WriteString(strings.Join(strings.Fields(m[1]), " ") + ";\n")
		}
	}
	return []byte(b.String()), nil
}
