package tutorial_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A tutorial runs outside of this repository: each is built in a separate module, which requires goccl, and one of
// them runs. Such a module gets golang.org/x/sys and the decoder of compressed kernels, and no other module.
func TestCopies(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	goTool := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = dir
		// The flags of the caller: others would compile Go's library once more.
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod",
			"CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	tutorials, err := filepath.Glob("../0*")
	if err != nil || len(tutorials) < 6 {
		t.Fatalf("tutorials: %v, %v", tutorials, err)
	}
	for _, from := range tutorials {
		to := filepath.Join(dir, filepath.Base(from))
		if err := os.Mkdir(to, 0o755); err != nil {
			t.Fatal(err)
		}
		copyFile(t, filepath.Join(from, "main.go"), filepath.Join(to, "main.go"))
	}
	copyFile(t, filepath.Join(root, "go.sum"), filepath.Join(dir, "go.sum"))
	goTool("mod", "init", "mine")
	goTool("mod", "edit", "-require", "github.com/goccl/goccl@v0.0.0", "-replace", "github.com/goccl/goccl="+root)
	goTool("build", "-o", os.DevNull, "./...")
	modules := strings.Fields(goTool("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./..."))
	slices.Sort(modules)
	want := []string{"github.com/goccl/goccl", "github.com/klauspost/compress", "golang.org/x/sys", "mine"}
	if got := slices.Compact(modules); !slices.Equal(got, want) {
		t.Errorf("a copy depends on the modules %v", got)
	}
	out := goTool("run", "./03-memory-channel", "-device", "host", "-bytes", "4096", "-iterations", "2")
	if !strings.Contains(out, "Succeed!") {
		t.Errorf("a copy of 03-memory-channel prints\n%s", out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
