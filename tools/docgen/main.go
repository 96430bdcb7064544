package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccl/goccl/plan"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail when a file is not up to date")
	add := flag.String("chaos", "", "add this folder of bench/results to the scoreboard of docs/reliability.md")
	flag.Parse()
	root, err := repositoryRoot()
	if err == nil && *add != "" {
		err = addRun(root, *add)
	}
	if err == nil {
		err = run(root, *check)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

// repositoryRoot returns the nearest parent directory with a go.work.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, e := os.Stat(filepath.Join(dir, "go.work")); e == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.work in this folder or above it")
		}
	}
	return "", err
}

// run updates every file, or, with check, reports those that are out of date.
func run(root string, check bool) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	var stale []string
	for path, want := range files {
		full := filepath.Join(root, path)
		got, err := os.ReadFile(full)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if bytes.Equal(got, want) {
			continue
		}
		if check {
			stale = append(stale, path)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, want, 0o644); err != nil {
			return err
		}
	}
	if len(stale) > 0 {
		return fmt.Errorf("%s: not what bench/results, engine/nvlink/tables, internal/setting, plan/op_table.go and "+
			"testdata/promises.json say; run go generate ./tools/docgen and commit the result", strings.Join(stale, ", "))
	}
	return nil
}

// generate returns every generated file by its path in the repository: documents that have a marker, and pictures.
func generate(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	add := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		made, found, err := fill(root, rel, string(text))
		if err != nil {
			return err
		}
		if found {
			files[rel] = []byte(made)
		}
		return nil
	}
	for _, place := range []string{"README.md", "docs"} {
		if err := filepath.WalkDir(filepath.Join(root, place), add); err != nil {
			return nil, err
		}
	}
	picture, err := ratios(root)
	if err != nil {
		return nil, err
	}
	files["docs/images/ratio.svg"] = picture
	if files["docs/images/inference.svg"], err = peers(root); err != nil {
		return nil, err
	}
	steps, err := stepsFile(root)
	if err == nil && steps != "" {
		files["docs/images/steps.svg"], err = drawSteps(steps)
	}
	if err != nil {
		return nil, err
	}
	files["docs/images/house.svg"] = drawHouse()
	schema, err := fillSchema(string(plan.Schema))
	if err != nil {
		return nil, err
	}
	files["plan/schema.json"] = []byte(schema)
	return files, nil
}

const (
	markerHead = "<!-- docgen: "
	markerTail = " -->"
)

// fill replaces the text between markers in a document. found reports whether there are any.
func fill(root, path, text string) (made string, found bool, err error) {
	var out strings.Builder
	inside, opened := false, 0
	for i, line := range strings.SplitAfter(text, "\n") {
		spec, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), markerHead)
		if ok {
			spec, ok = strings.CutSuffix(spec, markerTail)
		}
		if ok == inside && ok && spec != "end" || ok && !inside && spec == "end" {
			return "", false, fmt.Errorf("%s:%d: markers do not alternate", path, i+1)
		}
		switch {
		case !ok && inside: // replaced
		case !ok:
			out.WriteString(line)
		case inside:
			inside = false
			out.WriteString(line)
		default:
			inside, found, opened = true, true, i+1
			body, err := content(root, filepath.Dir(path), strings.Fields(spec))
			if err != nil {
				return "", false, fmt.Errorf("%s:%d: %w", path, i+1, err)
			}
			out.WriteString(line)
			out.WriteString("\n" + body + "\n")
		}
	}
	if inside {
		return "", false, fmt.Errorf("%s:%d: the marker has no end", path, opened)
	}
	return out.String(), found, nil
}

func content(root, dir string, spec []string) (string, error) {
	switch {
	case len(spec) == 4 && spec[0] == "measured":
		return measured(root, dir, spec[1], spec[2], spec[3])
	case len(spec) == 2 && slices.Contains([]string{"training", "beside", "alone"}, spec[0]):
		return jobTable(root, dir, spec[0], spec[1])
	case len(spec) == 2 && spec[0] == "chosen":
		return chosen(root, spec[1])
	case len(spec) == 2 && spec[0] == "primitives":
		return primitives(root, dir, spec[1])
	case len(spec) >= 3 && spec[0] == "chaos":
		return reliability(root, spec[1], spec[2:])
	case len(spec) >= 2 && spec[0] == "promises":
		return promises(root, spec[1:])
	case len(spec) == 2 && spec[0] == "ops":
		return ops(spec[1])
	}
	return "", fmt.Errorf("unknown marker %q", strings.Join(spec, " "))
}
