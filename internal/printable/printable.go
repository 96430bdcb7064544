// Package printable makes text of others safe for terminals.
package printable

import (
	"strings"
	"unicode"
)

// Line replaces what a terminal or a reader of lines would obey: control characters, line ends, and marks that change
// the direction of text.
func Line(s string) string {
	if strings.IndexFunc(s, obeyed) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if obeyed(r) {
			return '?'
		}
		return r
	}, s)
}

func obeyed(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// Strings applies Line to each of them.
func Strings(list ...*string) {
	for _, s := range list {
		*s = Line(*s)
	}
}
