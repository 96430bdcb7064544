package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Every image of the repository is packed, gets smaller, and unpacks to the same bytes. Two runs write the same bytes.
func TestPack(t *testing.T) {
	root, err := filepath.Abs("../../../kernels")
	if err != nil {
		t.Fatal(err)
	}
	small := t.TempDir() // two groups: packing all takes seconds
	for _, g := range []string{"onesided", "probe"} {
		if err := os.Symlink(filepath.Join(root, g), filepath.Join(small, g)); err != nil {
			t.Fatal(err)
		}
	}
	dest, again := t.TempDir(), t.TempDir()
	for _, d := range []string{dest, again} {
		if err := pack(small, d); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dest, "overlay.json"))
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlay); err != nil || len(overlay.Replace) != 8 {
		t.Fatalf("%d images of two groups, want 8: %v", len(overlay.Replace), err)
	}
	r, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for from, to := range overlay.Replace {
		image, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile(filepath.Join(again, filepath.Base(to)))
		if err != nil || !bytes.Equal(packed, second) {
			t.Errorf("%s: two runs differ: %v", from, err)
		}
		back, err := r.DecodeAll(packed, nil)
		if err != nil || !bytes.Equal(back, image) || len(packed) > len(image)/3 {
			t.Errorf("%s: %d bytes are %d packed and %d again: %v", from, len(image), len(packed), len(back), err)
		}
	}
	if err := pack(t.TempDir(), dest); err == nil {
		t.Error("a folder without images is packed")
	}
}
