package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Few new trials count beside many old ones, enough new ones in their place; devices have separate tables; cells
// without trials are named; a folder
// is added once.
func TestScoreboard(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(folder, device string, small, large int) {
		t.Helper()
		cell := func(phase string, n int) string {
			return fmt.Sprintf(`{"fault":"kill","phase":%q,"trials":%d,"outcomes":{"handled":%d}}`, phase, n, n)
		}
		write("bench/results/"+folder+"/chaos-"+device+".json", fmt.Sprintf(`{"device":%q,"ranks":4,"cells":[%s,%s]}`, device,
			cell("small", small), cell("large", large)))
	}
	run("a", "host", 60, 60)
	run("b", "host", 50, 10)
	run("b", "cuda", 3, 0)
	write("docs/reliability.md", "<!-- docgen: chaos cells a -->\n<!-- docgen: end -->\n")
	for range 2 {
		if err := addRun(root, "b"); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/reliability.md"))
	if err != nil || !strings.HasPrefix(string(text), "<!-- docgen: chaos cells a b -->\n") {
		t.Errorf("%v: %s", err, text)
	}
	for part, want := range map[string]string{"cells": "| – | 50 | 70 |", "gpus": "| – | 3 | – |",
		"summary": "2 of"} {
		if got, err := reliability(root, part, []string{"a", "b"}); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v\n%s\nhas no %q", part, err, got, want)
		}
	}
	if addRun(root, "c") == nil {
		t.Error("a folder that is not there was added")
	}
}
