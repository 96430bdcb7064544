//go:build !cgo || !linux

package nvrtc

import "fmt"

// Library is an opened libnvrtc; in a build without cgo there is none.
type Library struct{}

// Open always fails in a build without cgo. The error wraps ErrUnavailable.
func Open(...string) (*Library, error) {
	return nil, fmt.Errorf("%w: this program was built without cgo", ErrUnavailable)
}

// Path is empty.
func (*Library) Path() string { return "" }

// Version is zero.
func (*Library) Version() Version { return Version{} }

// Archs is empty.
func (*Library) Archs() []int { return nil }

// Compile always fails with ErrUnavailable.
func (*Library) Compile(Program) (Result, error) { return Result{}, ErrUnavailable }
