package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every function of NCCL's ABI is on the page about moving from NCCL, by its name or by a pattern such as ncclParam….
func TestMigrationNamesEveryFunction(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	header, err := os.ReadFile(filepath.Join(root, "capi", "nccl", "api.h"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "nccl-migration.md"))
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for _, m := range regexp.MustCompile("`((?:nccl|…)[A-Za-z0-9…]+)`").FindAllSubmatch(page, -1) {
		patterns = append(patterns, strings.ReplaceAll(string(m[1]), "…", ".*"))
	}
	known := regexp.MustCompile("^(" + strings.Join(patterns, "|") + ")$")
	found := regexp.MustCompile(`NCCL_(?:API|LACKS)\([^,]+, (nccl\w+)`).FindAllSubmatch(header, -1)
	if len(found) < 60 {
		t.Fatalf("only %d functions in capi/nccl/api.h: this test reads it no more", len(found))
	}
	for _, m := range found {
		if !known.Match(m[1]) {
			t.Errorf("docs/nccl-migration.md does not say what becomes of %s", m[1])
		}
	}
}
