// Package artifact describes a committed kernel build: what the generated files hold, and how an image is chosen for a
// device.
//
// Values are immutable after package initialisation and are safe for concurrent use.
package artifact

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// ErrNoImage means that a group has no image that the device can run.
var ErrNoImage = errors.New("kernels: no image for this device")

// Group is the build of one folder of CUDA sources: one translation unit, one image per architecture.
type Group struct {
	Name     string   // folder below kernels
	Compiler string   // exact compiler that made the images
	Source   string   // SHA-256 over the options, the sources and every header
	Kernels  []string // entry points, sorted
	Images   []Image
}

// Image is a cubin for one architecture and its minor revisions, or PTX for one virtual architecture and every later
// one.
type Image struct {
	Major, Minor int
	PTX          bool
	Data         []byte // the embedded file, which a release holds compressed; read-only
}

// Image returns the module to load on a device of compute capability major.minor, unpacked. Errors wrap ErrNoImage.
func (g *Group) Image(major, minor int) ([]byte, error) {
	i := g.Select(major, minor)
	if i == nil {
		return nil, fmt.Errorf("%w: group %s needs compute capability 8.0 or later, this is %d.%d",
			ErrNoImage, g.Name, major, minor)
	}
	return i.Open()
}

// Open returns the image, unpacked.
func (i *Image) Open() ([]byte, error) {
	if !bytes.HasPrefix(i.Data, []byte{0x28, 0xb5, 0x2f, 0xfd}) { // the magic number of zstd
		return i.Data, nil
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := r.DecodeAll(i.Data, nil)
	if err != nil {
		return nil, fmt.Errorf("image for %d.%d: %w", i.Major, i.Minor, err)
	}
	return data, nil
}

// Select returns the image for a device of compute capability major.minor: the cubin of the same major with the
// greatest minor that is not above, else the PTX of the greatest architecture that is not above. It returns nil if the
// device is older than every image of the group.
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
