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

// callerPosition is the nearest caller that is not this package. The tests of this package count as users. Most calls of a program come from
// few lines, so the answer for a return address is kept in known, which belongs to one program.
func callerPosition(known map[uintptr]Position) Position {
	var pcs [12]uintptr
	n := runtime.Callers(3, pcs[:])
	for i := range n {
		pos, ok := known[pcs[i]]
		if !ok {
			pos = userPosition(pcs[i : i+1])
			known[pcs[i]] = pos
		}
		if pos.File != "" {
			return pos
		}
	}
	return Position{}
}

// userPosition is the line of the innermost frame behind a return address that is not of this package, or nothing.
func userPosition(pc []uintptr) Position {
	frames := runtime.CallersFrames(pc)
	for {
		f, more := frames.Next()
		if f.Function != "" && (!strings.HasPrefix(f.Function, packagePath) || strings.HasSuffix(f.File, "_test.go")) {
			return Position{File: f.File, Line: f.Line}
		}
		if !more {
			return Position{}
		}
	}
}
