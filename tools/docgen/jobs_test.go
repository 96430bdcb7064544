package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const jobHead = `{"commit": "abc1234", "ranks": 4, "failures": {}, "machine": {
 "nccl": {"torch": "2.11.0+cu130", "gpus": ["NVIDIA H100"], "library": "2.28.9"}}, "rows": [`

// jobTree makes a repository with the given file, and returns its root.
func jobTree(t *testing.T, name, text string) string {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

// A figure is the median over the turns of a library.
func TestJobTables(t *testing.T) {
	const file = "bench/results/r/training.steps.json"
	text := jobHead + `
 {"library": "nccl", "turn": 0, "mode": "ddp", "tokens": 1024, "ms": 37, "exposed_ms": 5, "tokens_per_s": 1},
 {"library": "goccl", "turn": 1, "mode": "ddp", "tokens": 1024, "ms": 30, "exposed_ms": 2, "tokens_per_s": 120000},
 {"library": "nccl", "turn": 2, "mode": "ddp", "tokens": 1024, "ms": 43, "exposed_ms": 7, "tokens_per_s": 1}]}`
	root := jobTree(t, file, text)
	made, err := jobTable(root, "docs", "training", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| DDP | 1024 | 40.0 | 30.0 | 0.75 | 6.0 | 2.0 | 120000 |\n",
		"4 × NVIDIA H100, PyTorch 2.11.0, NCCL 2.28.9, goccl at commit abc1234",
		"[file](../bench/results/r/training.steps.json)"} {
		if !strings.Contains(made, want) {
			t.Errorf("%q is not in\n%s", want, made)
		}
	}
	path, err := stepsFile(root)
	if err != nil || path != filepath.Join(root, file) {
		t.Fatal(path, err)
	}
	picture, err := drawSteps(path)
	if err != nil || !strings.Contains(string(picture), "30.0 goccl, 0.75 ×") ||
		!strings.Contains(string(picture), "DDP, 1024 tokens") {
		t.Errorf("%v\n%s", err, picture)
	}
	if path, err := stepsFile(t.TempDir()); path != "" || err != nil {
		t.Error(path, err)
	}
}

func TestOverlapTables(t *testing.T) {
	rows := `
 {"library": "nccl", "collective": "all_reduce", "bytes": 268435456, "priority": "high", "wrong": 0,
  "alone_us": 1250, "both_by_max": 1.42, "graph_us": 1184, "eager_us": 1190},
 {"library": "goccl", "collective": "all_reduce", "bytes": 268435456, "priority": "high", "wrong": 0,
  "alone_us": 1183, "both_by_max": 1.1, "graph_us": 1000, "eager_us": 1190}]}`
	root := jobTree(t, "a.json", jobHead+rows)
	for kind, want := range map[string]string{
		"beside": "| all_reduce | 256 MiB | high | 1250 | 1183 | 1.42 | 1.10 |\n",
		"alone":  "| all_reduce | 256 MiB | 1184 | 1000 | 1.18 | 1190 | 1190 | 1.00 |\n",
	} {
		made, _, err := fill(root, "README.md", "<!-- docgen: "+kind+" a.json -->\n<!-- docgen: end -->\n")
		if err != nil || !strings.Contains(made, want) {
			t.Errorf("%s: %v\n%s", kind, err, made)
		}
	}
}

// Turns that failed, wrong data, and a case of one library are no results.
func TestJobsThatAreNoResults(t *testing.T) {
	row := `{"library": "nccl", "mode": "ddp", "tokens": 1, "ms": 1}, `
	for text, want := range map[string]string{
		strings.Replace(jobHead, `"failures": {}`, `"failures": {"1.goccl": "hung"}`, 1) + "]}":      "hung",
		jobHead + row + `{"library": "goccl", "collective": "all_gather", "bytes": 8, "wrong": 1}]}`: "all_gather of 8 bytes",
		jobHead + row + `{"library": "goccl", "mode": "ddp", "tokens": 2, "ms": 1}]}`:                "both libraries",
		`{"rows": []}`: "nothing was measured",
	} {
		if _, err := jobTable(jobTree(t, "a.json", text), ".", "training", "a.json"); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
