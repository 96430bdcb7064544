package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// promises returns a table of what the tests of folders have found of algorithms (test/testutil, Promise).
func promises(root string, folders []string) (string, error) {
	levels := []string{"run", "batch", "placement", "reference"}
	var b strings.Builder
	b.WriteString("| where | algorithm | " + strings.Join(levels, " | ") + " |\n|---|---|" +
		strings.Repeat("---|", len(levels)) + "\n")
	for _, folder := range folders {
		var rows []struct{ Where, Algorithm, Level string }
		if err := readJSON(filepath.Join(root, folder, "testdata/promises.json"), &rows); err != nil {
			return "", err
		}
		for len(rows) > 0 {
			first := rows[0]
			last := slices.Index(levels, first.Level)
			var names []string
			rows = slices.DeleteFunc(rows, func(r struct{ Where, Algorithm, Level string }) bool {
				same := r.Where == first.Where && r.Level == first.Level
				if same {
					names = append(names, "`"+r.Algorithm+"`")
				}
				return same
			})
			fmt.Fprintf(&b, "| %s | %s |", first.Where, strings.Join(names, ", "))
			for i := range levels {
				b.WriteString(map[bool]string{true: " yes |", false: " – |"}[i <= last])
			}
			b.WriteString("\n")
		}
	}
	return b.String(), nil
}
