//go:build !cgo || !linux

package nvml

import "fmt"

// Read needs cgo.
func Read() (*Info, error) {
	return nil, fmt.Errorf("%w: this program was built without cgo (CGO_ENABLED=0) or not for Linux", ErrUnavailable)
}

// ReadHealth needs cgo.
func ReadHealth() ([]Health, error) {
	_, err := Read()
	return nil, err
}
