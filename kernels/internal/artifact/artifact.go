// Package artifact describes a committed kernel build: what the generated files hold, and how an image is chosen for a
// device.
//
// Values are immutable after package initialisation and are safe for concurrent use.
package artifact

import "slices"

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
	Data         []byte // the embedded file; read-only
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

// Has reports whether the group has an entry point of that name.
func (g Group) Has(kernel string) bool {
	_, ok := slices.BinarySearch(g.Kernels, kernel)
	return ok
}
