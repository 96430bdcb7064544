package dsl

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/goccl/goccl/plan"
)

// Position is a line in the author's source.
type Position struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// String returns "file:line", or "unknown position" for the zero value.
func (p Position) String() string {
	if p.File == "" {
		return "unknown position"
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// origins collects the lines of a plan's ops.
type origins struct {
	plan.Origins
	known map[Position]int32
}

func (o *origins) line(p Position) int32 {
	i, ok := o.known[p]
	if !ok {
		i = int32(len(o.Places))
		o.known[p] = i
		o.Places = append(o.Places, p.String())
	}
	return i
}

const packagePath = "github.com/goccl/goccl/plan/dsl."

// callerPosition returns the nearest caller outside of this package. Tests of this package count as outside. Most calls
// of a program come from few lines, so known caches the result for each return address; it belongs to one program.
func callerPosition(known map[uintptr]Position) Position {
	var pcs [12]uintptr
	n := runtime.Callers(3, pcs[:4]) // mostly enough, and a walk of the stack costs by the frame
	for i := 0; i < n; i++ {
		if i == 3 && n == 4 {
			n = runtime.Callers(3, pcs[:])
		}
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

// userPosition returns the innermost frame at a return address that is outside of this package, or the zero value.
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
