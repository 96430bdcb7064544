package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The committed documents match the committed measurements and tables.
func TestUpToDate(t *testing.T) {
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err != nil {
		t.Error(err)
	}
}

// A figure that was edited by hand is detected and replaced.
func TestNoticesAChange(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"README.md": "# x\n",
		"docs/a.md": "before\n<!-- docgen: chosen all_reduce -->\n| all_reduce | by hand " +
			"|\n<!-- docgen: end -->\nbehind\n",
		"engine/nvlink/tables/h200_4.json": `{"note": "measured", "gpu": "G", "ranks": 4,
			"collectives": {"all_reduce": [{"bytes": 1024, "algorithm": "a/64"},
				{"bytes": 2048, "algorithm": "a/128"}, {"bytes": 0, "algorithm": "b/64"}]},
			"special": [{"collective": "all_reduce", "mode": "eager", "width": 2, "rows": [{"bytes": 0, "algorithm": "c"}]}]}`,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	made, found, err := fill(root, "docs/a.md", read(t, filepath.Join(root, "docs/a.md")))
	if err != nil || !found {
		t.Fatal(found, err)
	}
	want := "before\n<!-- docgen: chosen all_reduce -->\n\n| table | | algorithm, up to the size of the whole buffer " +
		"|\n|---|---|---|\n" +
		"| G, 4 ranks: measured |  | `a` to 2 KiB, `b` above |\n| G, 4 ranks: measured | eager 2-byte elements | `c` " +
		"|\n\n<!-- docgen: end -->\nbehind\n"
	if made != want {
		t.Errorf("got\n%s\nwant\n%s", made, want)
	}
	if again, _, err := fill(root, "docs/a.md", made); err != nil || again != made {
		t.Errorf("a second time: %v\n%s", err, again)
	}
	for _, broken := range []string{
		"<!-- docgen: chosen all_reduce -->\n",
		"<!-- docgen: end -->\n",
		"<!-- docgen: chosen all_reduce -->\n<!-- docgen: chosen all_reduce -->\n<!-- docgen: end -->\n",
		"<!-- docgen: chosen nothing -->\n<!-- docgen: end -->\n",
		"<!-- docgen: other -->\n<!-- docgen: end -->\n",
	} {
		if _, _, err := fill(root, "b.md", broken); err == nil || !strings.HasPrefix(err.Error(), "b.md:") {
			t.Errorf("%q: %v", broken, err)
		}
	}
}

// A measurement with wrong results has no time.
func TestRefusesWrongResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	text := `{"libraries": [{"name": "goccl"}, {"name": "N"}],
		"rows": [{"library": "goccl", "size_bytes": 8, "time_us": 1, "wrong": 1}]}`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readTimes(path); err == nil {
		t.Error("a wrong row is read")
	}
}

// The picture names the commits of its files, each once, whatever the name of their directory; files of two machines
// are not drawn together.
func TestNamesEveryCommit(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, shown[0]), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(collective, commit string, ranks int) {
		for _, mode := range []string{"eager", "graph"} {
			text := fmt.Sprintf(
				`{"build": {"commit": %q}, "libraries": [{"name": "goccl"}, {"name": "N"}], "setup": {"ranks": %d},
				"rows": [{"library": "goccl", "size_bytes": 1024, "time_us": 1},
					{"library": "N", "size_bytes": 1024, "time_us": 2}]}`, commit, ranks)
			if err := os.WriteFile(filepath.Join(root, shown[0], "perf."+collective+".float."+mode+".json"), []byte(text),
				0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, c := range ratioCurves {
		write(c.name, []string{"first", "second"}[i%2], 4)
	}
	picture, err := ratios(root)
	if err != nil || !strings.Contains(string(picture), "commits first and second<") {
		t.Errorf("%v\n%s", err, picture)
	}
	write(ratioCurves[1].name, "second", 8)
	if _, err := ratios(root); err == nil {
		t.Error("files of 4 and of 8 ranks are drawn together")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
