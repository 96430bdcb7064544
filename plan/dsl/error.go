package dsl

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/goccl/goccl/plan"
)

// The classes of errors, for errors.Is.
var (
	ErrSpec       = errors.New("invalid program description")
	ErrRange      = errors.New("out of range")
	ErrMismatch   = errors.New("operands do not fit together")
	ErrPairing    = errors.New("signals and waits do not pair")
	ErrAssignment = errors.New("no thread block can be assigned")
	ErrLimit      = errors.New("limit of the plan format exceeded")
	ErrUsage      = errors.New("wrong use of the language")
)

// Error is one error in a program, with its position in the author's source.
type Error struct {
	Position Position
	Kind     error // one of the Err… values
	Detail   string
	Fix      string // how to fix it; may be empty
}

// Error returns "file:line: detail (kind); fix".
func (e *Error) Error() string {
	var b strings.Builder
	if e.Position.File != "" {
		fmt.Fprintf(&b, "%s: ", e.Position)
	}
	fmt.Fprintf(&b, "dsl: %s (%v)", e.Detail, e.Kind)
	if e.Fix != "" {
		fmt.Fprintf(&b, "; %s", e.Fix)
	}
	return b.String()
}

// Unwrap returns the class.
func (e *Error) Unwrap() error { return e.Kind }

// maxErrors bounds the number of errors of a program.
const maxErrors = 20

// fail records an error. Recording of the program continues, so that one compilation reports several errors.
func (p *CollectiveProgram) fail(pos Position, kind error, fix, format string, args ...any) {
	if len(p.errs) < maxErrors {
		p.errs = append(p.errs, &Error{Position: pos, Kind: kind, Fix: fix, Detail: fmt.Sprintf(format, args...)})
	}
}

// Err returns all errors found so far, joined, or nil.
func (p *CollectiveProgram) Err() error { return errors.Join(p.errs...) }

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
