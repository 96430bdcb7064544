// Package printable makes text for people: text of others safe for terminals, and numbers with their nouns.
package printable

import (
	"fmt"
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

// Bytes writes a size like "4 MiB".
func Bytes[T int64 | uint64](n T) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if limit := T(1) << (30 - 10*i); n >= limit {
			return fmt.Sprintf("%.4g %s", float64(n)/float64(limit), unit)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// Count is "1 rank" or "2 ranks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
