package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scanner reads JSON values in order, without building a tree. The first error is kept in err and every later call
// returns at once, so readers need no checks between calls; loops end because more returns false after an error.
//
// It is a recursive reader with a nesting limit of maxDepth. It never looks back, and uses no memory beyond what its
// caller keeps.
type scanner struct {
	data  []byte
	off   int
	depth int
	err   *Error
}

const maxDepth = 32

func (s *scanner) fail(at int, format string, args ...any) {
	if s.err != nil {
		return
	}
	line, col := lineCol(s.data, at)
	s.err = &Error{Class: ErrSyntax, Pos: Nowhere, Line: line, Col: col, Detail: fmt.Sprintf(format, args...)}
}

func lineCol(data []byte, at int) (line, col int) {
	before := data[:min(at, len(data))]
	return 1 + bytes.Count(before, []byte("\n")), at - bytes.LastIndexByte(before, '\n')
}

func (s *scanner) space() {
	rest := s.data[s.off:]
	s.off += len(rest) - len(bytes.TrimLeft(rest, " \t\n\r"))
}

// peek returns the first byte of the next token, or 0 at the end or after an error.
func (s *scanner) peek() byte {
	if s.err != nil {
		return 0
	}
	s.space()
	if s.off >= len(s.data) {
		return 0
	}
	return s.data[s.off]
}

func (s *scanner) describe() string {
	switch c := s.peek(); {
	case c == 0 && s.off >= len(s.data):
		return "the end of the file"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == '"':
		return "a string"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	case c == 't' || c == 'f':
		return "a boolean"
	case c == 'n':
		return "null"
	default:
		return strconv.QuoteRune(rune(c))
	}
}

// open reads '{' or '['.
func (s *scanner) open(c byte) {
	if s.peek() != c {
		what := "an object"
		if c == '[' {
			what = "a list"
		}
		s.fail(s.off, "found %s where %s belongs", s.describe(), what)
		return
	}
	if s.depth++; s.depth > maxDepth {
		s.fail(s.off, "nested deeper than %d", maxDepth)
		return
	}
	s.off++
}

// more reports whether another element follows in the object or list that ends with end. It reads the comma before the
// element, or the end. first must be true before the first element.
func (s *scanner) more(end byte, first *bool) bool {
	c := s.peek()
	if s.err != nil {
		return false
	}
	if c == end {
		s.off++
		s.depth--
		return false
	}
	if !*first {
		if c != ',' {
			s.fail(s.off, "found %s where ',' or '%c' belongs", s.describe(), end)
			return false
		}
		s.off++
		if s.peek() == end {
			s.fail(s.off, "a comma before '%c'", end)
			return false
		}
	}
	*first = false
	return true
}

// key reads a member's name and the colon. The result is valid until the next call.
func (s *scanner) key() []byte {
	k := s.str()
	if s.peek() != ':' {
		s.fail(s.off, "found %s where ':' belongs", s.describe())
		return nil
	}
	s.off++
	return k
}

// str reads a string. The result is valid until the next call of str or key.
func (s *scanner) str() []byte {
	if s.peek() != '"' {
		s.fail(s.off, "found %s where a string belongs", s.describe())
		return nil
	}
	start := s.off + 1
	for i := start; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.off = i + 1
			if v := s.data[start:i]; utf8.Valid(v) {
				return v
			}
			s.fail(start, "a string that is not UTF-8")
			return nil
		case c == '\\':
			return s.escaped(start, i)
		case c < 0x20:
			s.fail(i, "a control character in a string")
			return nil
		}
	}
	s.fail(start-1, "a string without an end")
	return nil
}

// escaped decodes a string that has an escape at i, and finds its end.
func (s *scanner) escaped(start, i int) []byte {
	for ; i < len(s.data); i++ {
		switch s.data[i] {
		case '\\':
			i++
		case '"':
			var v string // a lone surrogate becomes U+FFFD
			if !utf8.Valid(s.data[start:i]) || json.Unmarshal(s.data[start-1:i+1], &v) != nil {
				s.fail(start, "a string with an escape that JSON does not have, or not UTF-8")
				return nil
			}
			s.off = i + 1
			return []byte(v)
		}
	}
	s.fail(start-1, "a string without an end")
	return nil
}

// integer reads an integer as a sign and a magnitude.
func (s *scanner) integer() (neg bool, mag uint64) {
	c := s.peek()
	if c != '-' && (c < '0' || c > '9') {
		s.fail(s.off, "found %s where a whole number belongs", s.describe())
		return false, 0
	}
	at := s.off
	if neg = c == '-'; neg {
		s.off++
	}
	digits := s.off
	for s.off < len(s.data) && s.data[s.off] >= '0' && s.data[s.off] <= '9' {
		s.off++
	}
	mag, err := strconv.ParseUint(string(s.data[digits:s.off]), 10, 64)
	switch n := s.off - digits; {
	case n == 0:
		s.fail(at, "a sign without a number")
	case err != nil:
		s.fail(at, "a number beyond 64 bits")
	case n > 1 && s.data[digits] == '0':
		s.fail(at, "a number with a leading zero")
	case s.off < len(s.data) && (s.data[s.off] == '.' || s.data[s.off]|0x20 == 'e'):
		s.fail(at, "a fraction where a whole number belongs")
	}
	return neg, mag
}

func (s *scanner) uint() uint64 {
	at := s.off
	neg, mag := s.integer()
	if neg && mag != 0 {
		s.fail(at, "a negative number where a size belongs")
	}
	return mag
}

func (s *scanner) int64() int64 {
	at := s.off
	neg, mag := s.integer()
	if mag > 1<<62 {
		s.fail(at, "a number beyond 2^62")
		return 0
	}
	if neg {
		return -int64(mag)
	}
	return int64(mag)
}

func (s *scanner) int() int {
	at := s.off
	v := s.int64()
	if v > 1<<31-1 || v < -1<<31 {
		s.fail(at, "a number beyond 32 bits")
		return 0
	}
	return int(v)
}

func (s *scanner) bool() bool {
	switch {
	case s.peek() == 't' && s.literal("true"):
		return true
	case s.peek() == 'f' && s.literal("false"):
		return false
	}
	s.fail(s.off, "found %s where true or false belongs", s.describe())
	return false
}

func (s *scanner) literal(w string) bool {
	if s.off+len(w) <= len(s.data) && string(s.data[s.off:s.off+len(w)]) == w {
		s.off += len(w)
		return true
	}
	return false
}

// skip reads and discards a value of any type.
func (s *scanner) skip() {
	switch c := s.peek(); {
	case c == '{':
		s.open(c)
		for first := true; s.more('}', &first); {
			s.key()
			s.skip()
		}
	case c == '[':
		s.open(c)
		for first := true; s.more(']', &first); {
			s.skip()
		}
	case c == '"':
		s.str()
	case c == 't' && s.literal("true"), c == 'f' && s.literal("false"), c == 'n' && s.literal("null"):
	case c == '-' || c >= '0' && c <= '9':
		s.number()
	default:
		s.fail(s.off, "found %s where a value belongs", s.describe())
	}
}

// number reads and discards any JSON number.
func (s *scanner) number() {
	at := s.off
	for s.off < len(s.data) && strings.IndexByte("+-.0123456789eE", s.data[s.off]) >= 0 {
		s.off++
	}
	if !json.Valid(s.data[at:s.off]) {
		s.fail(at, "a malformed number")
	}
}
