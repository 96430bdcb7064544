package jit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestCache(t *testing.T) {
	c := compiler(t)
	r := Request{Source: `extern "C" __global__ void k() {}`, Major: 8, Minor: 6}
	first, err := c.Compile(r)
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(c.disk.dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("cache holds %v, %v: want one entry", files, err)
	}
	path := filepath.Join(c.disk.dir, files[0].Name())

	// From memory, although the file is gone.
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if again, err := c.Compile(r); err != nil || !bytes.Equal(again.Data, first.Data) {
		t.Errorf("memory cache: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the second Compile built again")
	}

	// Another Compiler loads it from disk: the content is returned, not a new build.
	if err := os.WriteFile(path, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := New(tools)
	if err != nil {
		t.Fatal(err)
	}
	if data := other.disk.load(files[0].Name()); !bytes.Equal(data, first.Data) {
		t.Error("disk cache: another content")
	}

	// A damaged entry is not used and is replaced.
	kept[len(kept)-1] ^= 1
	if err := os.WriteFile(path, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if img, err := other.Compile(r); err != nil || !bytes.Equal(img.Data, first.Data) {
		t.Errorf("damaged entry: %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || bytes.Equal(now, kept) {
		t.Errorf("the damaged entry is still there (%v)", err)
	}

	// Everything the output depends on changes the key.
	p, _, err := c.program(r)
	if err != nil {
		t.Fatal(err)
	}
	base := c.key(p, nil)
	for what, change := range map[string]func(*Request){
		"source":  func(r *Request) { r.Source += " " },
		"name":    func(r *Request) { r.Name = "other.cu" },
		"arch":    func(r *Request) { r.Minor = 0 },
		"options": func(r *Request) { r.Options = []string{"-DN=1"} },
		"headers": func(r *Request) { r.Headers = map[string]string{"mine.h": ""} },
	} {
		changed := r
		change(&changed)
		p, _, err := c.program(changed)
		if err != nil {
			t.Fatal(err)
		}
		if c.key(p, nil) == base {
			t.Errorf("another %s has the same key", what)
		}
	}
}

func TestCacheRefusesASharedFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCCL_CACHE_DIR", dir)
	if openDiskCache() != nil {
		t.Error("a folder that everybody can write to was taken")
	}
	t.Setenv("GOCCL_CACHE_DIR", "off")
	if openDiskCache() != nil {
		t.Error("off was not off")
	}
	made := filepath.Join(t.TempDir(), "a", "b")
	t.Setenv("GOCCL_CACHE_DIR", made)
	if openDiskCache() == nil {
		t.Fatal("a folder of ours was refused")
	}
	if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v: want 0700", info.Mode(), err)
	}
}

func TestCompileOnce(t *testing.T) {
	c := compiler(t)
	var wg sync.WaitGroup
	images := make([]Image, 8)
	for i := range images {
		wg.Go(func() {
			img, err := c.Compile(Request{Source: `extern "C" __global__ void once() {}`, Major: 9})
			if err != nil {
				t.Error(err)
			}
			images[i] = img
		})
	}
	wg.Wait()
	for _, img := range images {
		if len(img.Data) == 0 || &img.Data[0] != &images[0].Data[0] {
			t.Fatal("concurrent requests did not share one compilation")
		}
	}
}

// A changed header in a folder of the user's, included directly or by another, makes a new image.
func TestChangedHeaderIsCompiledAgain(t *testing.T) {
	c := compiler(t)
	dir, deeper := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(dir, "mine.h", "#pragma once\n  # include <other.h>\n")
	write(deeper, "other.h", "#include \"mine.h\"\n#define N 1\n")
	const source = "#include \"mine.h\"\n" + `extern "C" __global__ void k(int* p) { *p = N; }`
	for _, options := range [][]string{
		{"-I" + dir, "-I", deeper}, {"--include-path=" + dir, "--include-path", deeper},
		{"-I" + deeper, "--pre-include=" + filepath.Join(dir, "mine.h"), "-I" + dir},
	} {
		r := Request{Source: source, Major: 9, Options: options}
		if strings.HasPrefix(options[1], "--pre") {
			_, r.Source, _ = strings.Cut(source, "\n")
		}
		var images [][]byte
		for _, n := range []int{1, 2, 1} {
			write(deeper, "other.h", fmt.Sprintf("#include \"mine.h\"\n#define N %d\n", n))
			img, err := c.Compile(r)
			if err != nil {
				t.Fatal(options, err)
			}
			images = append(images, img.Data)
		}
		if bytes.Equal(images[0], images[1]) || !bytes.Equal(images[0], images[2]) {
			t.Errorf("%v: a changed header did not change the image, or the old header did not restore it", options)
		}
	}
}
