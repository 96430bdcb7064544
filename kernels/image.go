package kernels

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goccl/goccl/kernels/internal/artifact"
)

// ErrNoImage means that a group has no image that the device can run.
var ErrNoImage = artifact.ErrNoImage

// ErrUnknownGroup means that there is no group of that name.
var ErrUnknownGroup = errors.New("kernels: unknown group")

// Groups lists the names of all groups, sorted.
func Groups() []string { return slices.Sorted(maps.Keys(groups)) }

func lookup(group string) (*artifact.Group, error) {
	g := groups[group]
	if g == nil {
		return nil, fmt.Errorf("%w %q: there are %v", ErrUnknownGroup, group, Groups())
	}
	return g, nil
}

// Image returns the module to load on a device of compute capability major.minor: a cubin if one fits, else PTX, which
// the driver compiles at load time. Each call unpacks it if this is a release (tools/kernels/pack). Errors wrap
// ErrUnknownGroup or ErrNoImage.
func Image(group string, major, minor int) ([]byte, error) {
	g, err := lookup(group)
	if err != nil {
		return nil, err
	}
	return g.Image(major, minor)
}

// Compiled reports whether a group has a cubin for devices of compute capability major.minor.
func Compiled(group string, major, minor int) bool {
	g := groups[group]
	if g == nil {
		return false
	}
	i := g.Select(major, minor)
	return i != nil && !i.PTX
}

// Entry returns the symbol of an entry point of the groups collective, pcie, ring, hosts and executor (GOCCL_ENTRY
// in kernels/collective/entry.cuh). Profilers and trace tools recognize communication kernels by its prefix.
func Entry(name string) string { return "ncclDevKernel_goccl_" + name }

// Names lists the entry points of a group, sorted, or nil if there is no such group.
func Names(group string) []string {
	g := groups[group]
	if g == nil {
		return nil
	}
	return slices.Clone(g.Kernels)
}
