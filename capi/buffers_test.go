//go:build cgo && linux

package main

import (
	"strings"
	"testing"
)

// A bad buffer of one rank fails that rank's call, which names the address. A short one is found before anything
// begins: the call may be made again, and its peers learn of it when the rank leaves, or at their deadline. Memory that
// cannot be touched ends the work of all.
func TestBadBuffers(t *testing.T) {
	exe := program(t, "buffers")
	for _, how := range []string{
		"again 1048576", "destroy 1048576", "abort 1048576", "exit 1048576", "stay 1048576",
		"hole 64", "hole 1048576", "readonly 64", "readonly 1048576", "low 64", "low 1048576", "wild 64", "wild 1048576",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			processes(t, exe, 3, -1, strings.Fields(how)...)
		})
	}
}
