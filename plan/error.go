package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The classes of Error, for errors.Is.
var (
	ErrSyntax  = errors.New("not a plan in JSON")
	ErrLimit   = errors.New("over a limit")
	ErrInvalid = errors.New("invalid plan")
)

// Pos is a position in a plan. A part that does not apply is -1.
type Pos struct {
	Rank  int
	Block int
	Op    int // position in the thread block
	Inner int // position in the body of the pipeline Op
}

// Nowhere is the position of the plan as a whole.
var Nowhere = Pos{-1, -1, -1, -1}

// String returns text like "rank 0, thread block 2, op 5", or "" for the plan as a whole.
func (p Pos) String() string {
	var list []string
	for _, part := range []struct {
		name string
		v    int
	}{{"rank", p.Rank}, {"thread block", p.Block}, {"op", p.Op}, {"inner op", p.Inner}} {
		if part.v >= 0 {
			list = append(list, fmt.Sprintf("%s %d", part.name, part.v))
		}
	}
	return strings.Join(list, ", ")
}

// op returns the position of op i of the thread block at p, or of the body of the pipeline at p.
func (p Pos) op(i int) Pos {
	if p.Op < 0 {
		p.Op = i
	} else {
		p.Inner = i
	}
	return p
}

// Error is an error in the text or the structure of a plan. Line and Col (from 1, Col in bytes) are set when the plan
// came from JSON.
type Error struct {
	Class     error // ErrSyntax, ErrLimit or ErrInvalid
	Pos       Pos
	Field     string // JSON key, possibly with positions: "src_buff[1].index"
	Line, Col int
	Detail    string // the fault, and a correct form
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("plan: ")
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d: ", e.Line, e.Col)
	}
	if p := e.Pos.String(); p != "" {
		b.WriteString(p)
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field)
		b.WriteString(": ")
	}
	b.WriteString(e.Detail)
	return b.String()
}

// Unwrap returns the class.
func (e *Error) Unwrap() error { return e.Class }

// locate sets e's line and column to the place in data that e names, or to the innermost part of it that exists. It
// scans the file again: errors are rare, and so decoding needs no position bookkeeping.
func (e *Error) locate(data []byte) {
	if e.Line > 0 {
		return
	}
	var path []string
	step := func(name string, i int) {
		if i >= 0 {
			path = append(path, name, strconv.Itoa(i))
		}
	}
	step("gpus", e.Pos.Rank)
	step("threadblocks", e.Pos.Block)
	step("ops", e.Pos.Op)
	step("ops", e.Pos.Inner)
	path = append(path, strings.FieldsFunc(e.Field, func(r rune) bool { return r == '.' || r == '[' || r == ']' })...)
	s := scanner{data: data}
	at := 0
	for _, want := range path {
		found := false
		switch s.peek() {
		case '{':
			s.open('{')
			for first := true; !found && s.more('}', &first); {
				if found = string(s.key()) == want; !found {
					s.skip()
				}
			}
		case '[':
			s.open('[')
			i := 0
			for first := true; !found && s.more(']', &first); i++ {
				if found = strconv.Itoa(i) == want; !found {
					s.skip()
				}
			}
		}
		if !found {
			break
		}
		s.space()
		at = s.off
	}
	e.Line, e.Col = lineCol(data, at)
}
