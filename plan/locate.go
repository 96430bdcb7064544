package plan

import (
	"strconv"
	"strings"
)

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
