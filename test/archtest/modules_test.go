package archtest

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// modules are the folders of the modules that go.work names, the root first.
var modules = []string{"", "cmd/goccl", "watch/metrics"}

// requirements returns the modules that go.mod of a folder names, without those that it needs indirectly.
func requirements(t *testing.T, dir string) map[string]string {
	t.Helper()
	var mod struct {
		Require []struct {
			Path, Version string
			Indirect      bool
		}
		Replace []any
	}
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join(root(t), dir)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &mod)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(mod.Replace) > 0 {
		t.Errorf("%s/go.mod replaces modules: `go install` refuses that; go.work may", dir)
	}
	direct := map[string]string{}
	for _, r := range mod.Require {
		if !r.Indirect {
			direct[r.Path] = r.Version
		}
	}
	return direct
}

// Users of the library get few modules of others with it.
func TestRequirementsOfTheLibrary(t *testing.T) {
	if r := requirements(t, ""); len(r) > 5 {
		t.Errorf("go.mod requires %d modules, at most 5 are allowed: %v", len(r), r)
	}
}

// A program that uses the library gets two modules of others: golang.org/x/sys, and one that unpacks the kernels of a
// release. Metrics and the tool have theirs for themselves.
func TestModulesOfTheLibrary(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".", "./capi", "./primitive",
		"./plan/dsl")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range strings.Fields(string(out)) {
		if m != Module && m != "golang.org/x/sys" && m != "github.com/klauspost/compress" && !seen[m] {
			t.Errorf("the library imports packages of %s", m)
		}
		seen[m] = true
	}
	if !seen[Module] {
		t.Errorf("go list names no package of goccl: %v", seen)
	}
}

// `go install github.com/goccl/goccl/cmd/goccl@version` works from outside: the release, as a proxy would serve it from
// this tree, has every package and every embedded file. GOCCL_FULL=1 builds the tool, too.
func TestInstallFromOutside(t *testing.T) {
	version := requirements(t, "cmd/goccl")[Module]
	proxy := t.TempDir()
	for _, dir := range modules {
		release(t, proxy, dir, version)
	}
	where, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = outside
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOSUMDB=off", "GOFLAGS=-modcacherw", "CGO_ENABLED=0",
			"GOMODCACHE="+filepath.Join(proxy, "cache"), "GOBIN="+filepath.Join(proxy, "bin"), "GOPROXY=file://"+proxy+
				",file://"+filepath.Join(strings.TrimSpace(string(where)), "cache/download")+",off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	tool := Module + "/cmd/goccl"
	run("mod", "init", "outside")
	run("get", "-tool", tool+"@"+version)
	list := run("list", "-deps", "-f", "{{with .Module}}{{.Path}}@{{.Version}}{{end}}", tool)
	for _, want := range []string{Module + "@" + version, Module + "/watch/metrics@" + version} {
		if !strings.Contains(list, want+"\n") {
			t.Errorf("the tool is not built from %s", want)
		}
	}
	if os.Getenv("GOCCL_FULL") == "" {
		return
	}
	run("install", tool+"@"+version)
	out, err := exec.Command(filepath.Join(proxy, "bin", "goccl"), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), version) {
		t.Errorf("goccl version: %v\n%s", err, out)
	}
}

// release writes what a proxy serves of a module: the files that git knows below dir, without other modules.
func release(t *testing.T, proxy, dir, version string) {
	t.Helper()
	git := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "./"+dir)
	git.Dir = root(t)
	out, err := git.Output()
	if err != nil {
		t.Skip("needs git and a clone: ", err)
	}
	name := path.Join(Module, dir)
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	var mod []byte
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if other(dir, file) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil { // deleted, and git still knows it
			continue
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(file, dir), "/")
		if rel == "go.mod" {
			mod = text
		}
		f, err := w.CreateHeader(&zip.FileHeader{Name: name + "@" + version + "/" + rel}) // stored
		if err == nil {
			_, err = f.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(proxy, name, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{"list": []byte(version), version + ".mod": mod, version + ".zip": b.Bytes(),
		version + ".info": fmt.Appendf(nil, "{\"Version\": %q}", version)} {
		if err := os.WriteFile(filepath.Join(at, file), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// other says whether a file belongs to a module below dir.
func other(dir, file string) bool {
	for d := path.Dir(file); d != "." && d != dir; d = path.Dir(d) {
		if d == "tools/lint" || d == "tools/release" || slices.Contains(modules, d) {
			return true
		}
	}
	return false
}
