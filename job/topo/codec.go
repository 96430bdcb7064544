package topo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrInvalid is the error of an inconsistent Machine.
var ErrInvalid = errors.New("topo: invalid machine")

// maxSize bounds the input of Decode.
const maxSize = 4 << 20

// Encode returns m as indented JSON. Decode turns it back into an equal Machine.
func Encode(m *Machine) ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// Decode parses a Machine and validates it. Unknown fields are errors, so that a typo in a fixture is detected.
func Decode(b []byte) (*Machine, error) {
	if len(b) > maxSize {
		return nil, fmt.Errorf("%w: %d bytes of JSON, at most %d are read", ErrInvalid, len(b), maxSize)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	m := new(Machine)
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if d.More() {
		return nil, fmt.Errorf("%w: more than one JSON value", ErrInvalid)
	}
	return m, m.Validate()
}

// Validate checks that indices are in order, that every pair of GPUs occurs once, and that counts agree.
func (m *Machine) Validate() error {
	bad := func(format string, v ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, v...)...)
	}
	switch m.Source {
	case "detected", "recorded", "synthesised":
	default:
		return bad("source %q: use detected, recorded or synthesised", m.Source)
	}
	n := len(m.GPUs)
	for i, g := range m.GPUs {
		if g.Index != i {
			return bad("GPU %d has index %d", i, g.Index)
		}
		if g.MemoryMiB < 0 || g.NVLinks < 0 {
			return bad("GPU %d has negative memory or links", i)
		}
	}
	if len(m.Links) != n*(n-1)/2 {
		return bad("%d GPUs have %d pairs, not %d", n, n*(n-1)/2, len(m.Links))
	}
	seen := map[[2]int]bool{}
	for _, l := range m.Links {
		if l.A < 0 || l.A >= l.B || l.B >= n || seen[[2]int{l.A, l.B}] {
			return bad("link %d–%d: pairs are listed once, the smaller GPU first", l.A, l.B)
		}
		seen[[2]int{l.A, l.B}] = true
		if _, err := l.Path.MarshalText(); err != nil {
			return bad("link %d–%d: %v", l.A, l.B, err)
		}
		if (l.Path == PathNVLink) != (l.NVLinks > 0) || l.NVLinks > min(m.GPUs[l.A].NVLinks, m.GPUs[l.B].NVLinks) {
			return bad("link %d–%d is %s with %d NVLinks; the GPUs have %d and %d", l.A, l.B, l.Path, l.NVLinks,
				m.GPUs[l.A].NVLinks, m.GPUs[l.B].NVLinks)
		}
	}
	for _, c := range m.NICs {
		if c.Kind != "ethernet" && c.Kind != "infiniband" {
			return bad("NIC %q of kind %q", c.Name, c.Kind)
		}
		if len(c.Paths) != 0 && len(c.Paths) != n {
			return bad("NIC %q has paths to %d of %d GPUs", c.Name, len(c.Paths), n)
		}
	}
	return nil
}
