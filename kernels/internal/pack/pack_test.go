package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/kernels/internal/artifact"
)

// Every image of the repository is packed, gets smaller, and unpacks to the same bytes. Two runs write the same bytes.
func TestPack(t *testing.T) {
	root, err := filepath.Abs("../..")
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
		back, err := (&artifact.Image{Data: packed}).Open()
		if err != nil || !bytes.Equal(back, image) || len(packed) > len(image)/3 {
			t.Errorf("%s: %d bytes are %d packed and %d again: %v", from, len(image), len(packed), len(back), err)
		}
		if _, err := (&artifact.Image{Data: packed[:len(packed)-9]}).Open(); err == nil {
			t.Errorf("%s: cut short, and opens", from)
		}
	}
	if err := pack(t.TempDir(), dest); err == nil {
		t.Error("a folder without images is packed")
	}
}

// BenchmarkOpen is the CPU time that a process on sm_90 pays for unpacking every group that a communicator loads.
func BenchmarkOpen(b *testing.B) {
	paths, err := filepath.Glob("../../*/*_sm90.cubin")
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range paths {
		image, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		packed, err := artifact.Pack(image)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(filepath.Base(path), func(b *testing.B) {
			start := cpu(b)
			for b.Loop() {
				if _, err := (&artifact.Image{Data: packed}).Open(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpu(b)-start).Seconds()*1e3/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpu is the CPU time of this process so far: other processes do not disturb it.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
