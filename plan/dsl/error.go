package dsl

import (
	"errors"
	"fmt"
	"strings"
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
