package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each table has a header, and all its rows have the same number of cells. A blank line in a table, or a bar in a cell,
// breaks its display.
func TestTables(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	rule, code := regexp.MustCompile(`^\|[-:| ]+\|$`), regexp.MustCompile("`[^`]*`")
	for _, file := range append(documents(t, root), filepath.Join(root, "bench", "results", "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		fenced, cells := false, 0 // cells per row of the table that this line is in; 0: not in a table
		for i, line := range lines {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			if fenced || !strings.HasPrefix(line, "|") {
				cells = 0
				continue
			}
			n := strings.Count(code.ReplaceAllString(line, ""), "|")
			switch {
			case cells == 0 && (i+1 == len(lines) || !rule.MatchString(lines[i+1])):
				t.Errorf("%s:%d: a table without a head", filepath.Base(file), i+1)
			case cells != 0 && n != cells:
				t.Errorf("%s:%d: %d bars in a row of a table that has %d", filepath.Base(file), i+1, n, cells)
			}
			cells = n
		}
	}
}
