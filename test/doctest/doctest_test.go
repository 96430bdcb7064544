package doctest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// block is one fenced code block.
type block struct {
	file, language, mode, text string
	line                       int
}

// parse finds the fenced blocks of a Markdown file. mode is the text after the language.
func parse(file string, text []byte) ([]block, error) {
	var blocks []block
	var open *block
	for i, line := range strings.Split(string(text), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case !isFence && open != nil:
			open.text += line + "\n"
		case !isFence:
		case open != nil:
			if strings.TrimSpace(fence) != "" {
				return nil, fmt.Errorf("%s:%d: a block that opened at line %d is not closed before the next", file, i+1, open.line)
			}
			blocks = append(blocks, *open)
			open = nil
		default:
			language, mode, _ := strings.Cut(strings.TrimSpace(fence), " ")
			open = &block{file: file, language: language, mode: mode, line: i + 1}
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s:%d: block is not closed", file, open.line)
	}
	return blocks, nil
}

// runnable lists the languages of blocks that must run or give a reason to skip.
var runnable = map[string]bool{"sh": true, "go": true, "c": true}

// hurried is the goccl of the blocks: the one in a folder, whose measurements take few samples, because nothing reads
// their times here. What a block says itself comes later and holds.
const hurried = `#!/bin/sh
if [ "$1" = perf ] && [ "${2-}" != decode ]; then
  shift
  exec '%[1]s/goccl' perf --iters 3 --cycles 1 "$@"
fi
exec '%[1]s/goccl' "$@"
`

func documents(t *testing.T, root string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestCodeBlocks(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	command := func(dir, name string, args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // per block, so that the one that hangs is identified
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.WaitDelay = 5 * time.Second
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "CUDA_VISIBLE_DEVICES=",
			"CI=true")
		return cmd
	}
	built := t.TempDir()
	if out, err := command(root, "go", "build", "-o", built, "./cmd/goccl").CombinedOutput(); err != nil {
		t.Fatalf("build goccl: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(bin, "goccl"), fmt.Appendf(nil, hurried, built), 0o755); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range documents(t, root) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		short, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := parse(short, text)
		if err != nil {
			t.Error(err)
		}
		for _, b := range blocks {
			switch {
			case strings.HasPrefix(b.mode, "skip: ") || b.mode == "" && !runnable[b.language]:
				continue
			case b.mode != "test" || !runnable[b.language]:
				t.Errorf("%s:%d: unknown fence %q %q: use sh test, go test, c test, or skip: and a reason", b.file, b.line,
					b.language, b.mode)
				continue
			}
			ran++
			t.Run(fmt.Sprintf("%s:%d", b.file, b.line), func(t *testing.T) {
				var cmd *exec.Cmd
				switch b.language {
				case "sh":
					cmd = command(t.TempDir(), "bash", "-euo", "pipefail", "-c", b.text)
				case "c":
					dir := t.TempDir()
					if err := os.WriteFile(filepath.Join(dir, "main.c"), []byte(b.text), 0o644); err != nil {
						t.Fatal(err)
					}
					for _, lib := range []string{"libnccl.so.2", "libgoccl.so"} {
						if _, err := os.Stat(filepath.Join(root, "build", lib)); err != nil {
							t.Skipf("build/%s is not there: run make libnccl first, as make test does", lib)
						}
					}
					cmd = command(root, "bash", "-euo", "pipefail", "-c",
						`gcc -Wall -Wextra -Werror "$1/main.c" -Icapi/nccl build/libnccl.so.2 -o "$1/main" && "$1/main"`, "-", dir)
					cmd.Env = append(cmd.Env, "GOCCL_DEVICE=host", "GOCCL_OP_TIMEOUT=60s",
						"LD_LIBRARY_PATH="+filepath.Join(root, "build"))
				default:
					// Inside the module, so that it may import the module's packages; git and ./... ignore build/.
					if err := os.MkdirAll(filepath.Join(root, "build"), 0o755); err != nil {
						t.Fatal(err)
					}
					dir, err := os.MkdirTemp(filepath.Join(root, "build"), "_doctest-")
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = os.RemoveAll(dir) })
					main := filepath.Join(dir, "main.go")
					if err := os.WriteFile(main, []byte(b.text), 0o644); err != nil {
						t.Fatal(err)
					}
					cmd = command(root, "go", "run", main)
				}
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Run(); err != nil {
					t.Errorf("%v\n%s", err, out.Bytes())
				}
			})
		}
	}
	if ran < 3 {
		t.Errorf("only %d blocks ran: the documents have lost their examples, or this test finds them no more", ran)
	}
}

func TestParse(t *testing.T) {
	blocks,
		err := parse("a.md", []byte("x\n```sh test\necho 1\n```\n```\nplain\n```\n```go skip: needs a GPU\nmain\n```\n"))
	if err != nil || len(blocks) != 3 {
		t.Fatalf("%v, %v", blocks, err)
	}
	if b := blocks[0]; b.language != "sh" || b.mode != "test" || b.text != "echo 1\n" || b.line != 2 {
		t.Errorf("%+v", b)
	}
	if b := blocks[2]; b.mode != "skip: needs a GPU" {
		t.Errorf("%+v", b)
	}
	for _, broken := range []string{"```sh\nx", "```sh\n```go\n```\n"} {
		if _, err := parse("b.md", []byte(broken)); err == nil {
			t.Errorf("%q parses", broken)
		}
	}
}

// elsewherePages lists the documents outside of docs, whose code does not run.
func elsewherePages(t *testing.T, root string) (files []string) {
	t.Helper()
	for _, pattern := range []string{"examples/*.md", "bench/results/*.md", "bench/results/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	return files
}

// Links between documents, and from them to files, have a target.
func TestLinks(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Concat(documents(t, root), elsewherePages(t, root)) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for rest := string(text); ; {
			_, after, ok := strings.Cut(rest, "](")
			if !ok {
				break
			}
			target, tail, ok := strings.Cut(after, ")")
			if !ok {
				break
			}
			rest = tail
			target, _, _ = strings.Cut(target, "#")
			if target == "" || strings.Contains(target, "://") || strings.ContainsAny(target, " \n") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", filepath.Base(file), target)
			}
		}
	}
}
