// Package artifact is the shape of a committed kernel build: what the generated files hold and how an image is chosen for a device.
//
// Values are immutable after package initialisation and are safe for concurrent use.
package artifact

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Group is the build of one folder of CUDA sources: one translation unit, one image per architecture.
type Group struct {
	Name     string   // folder below kernels
	Compiler string   // exact compiler that made the images
	Source   string   // SHA-256 over the options, the sources and every header
	Kernels  []string // entry points, sorted
	Images   []Image
}

// Image is a cubin for one real architecture and its minor revisions, or PTX for one virtual architecture and everything after it.
type Image struct {
	Major, Minor int
	PTX          bool
	Data         func() []byte // made by Gzip; the same slice every time, which must not be written to
}

// Gzip returns a function that unpacks an embedded file on its first call: images are many, and a program loads one or two.
func Gzip(packed []byte) func() []byte {
	return sync.OnceValue(func() []byte {
		data, err := Unpack(packed)
		if err != nil {
			panic("kernels: an embedded image is damaged: " + err.Error()) // it was unpacked once when it was built
		}
		return data
	})
}

// Pack compresses an image. The bytes depend on the Go release: compare images unpacked.
func Pack(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Unpack is the inverse of Pack.
func Unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("artifact: %w", err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("artifact: %w", err)
	}
	return data, nil
}

// Select picks the image for a device of compute capability major.minor: the cubin of the same major with the greatest minor that is not above, else the
// PTX of the greatest architecture that is not above. It returns nil when the device is older than everything in the group.
func (g Group) Select(major, minor int) *Image {
	var best *Image
	better := func(i *Image) bool {
		if best == nil || best.PTX != i.PTX {
			return best == nil || best.PTX
		}
		return i.Major > best.Major || i.Major == best.Major && i.Minor > best.Minor
	}
	for n := range g.Images {
		i := &g.Images[n]
		fits := i.Major == major && i.Minor <= minor
		if i.PTX {
			fits = i.Major < major || fits
		}
		if fits && better(i) {
			best = i
		}
	}
	return best
}

// Has reports whether the group has an entry point of that name.
func (g Group) Has(kernel string) bool {
	_, ok := slices.BinarySearch(g.Kernels, kernel)
	return ok
}
