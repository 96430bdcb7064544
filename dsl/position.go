package dsl

import (
	"fmt"
	"runtime"
	"strings"
)

// Position is a line of the program that its author wrote.
type Position struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// String is "file:line", or "unknown position" for the zero value.
func (p Position) String() string {
	if p.File == "" {
		return "unknown position"
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

const packagePath = "github.com/goccl/goccl/dsl."

// callerPosition is the nearest caller that is not this package. The tests of this package count as users.
func callerPosition() Position {
	var pcs [16]uintptr
	n := runtime.Callers(3, pcs[:])
	frames := runtime.CallersFrames(pcs[:n])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, packagePath) || strings.HasSuffix(f.File, "_test.go") {
			return Position{File: f.File, Line: f.Line}
		}
		if !more {
			return Position{}
		}
	}
}
