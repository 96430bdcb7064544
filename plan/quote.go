package plan

import (
	"unicode/utf16"
	"unicode/utf8"
)

// unquote appends the text of a JSON string body (without its quotes) to dst. A lone surrogate becomes U+FFFD, as in
// encoding/json.
func unquote(dst, src []byte) ([]byte, bool) {
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c < 0x20:
			return dst, false
		case c != '\\':
			r, n := utf8.DecodeRune(src[i:])
			if r == utf8.RuneError && n <= 1 {
				return dst, false
			}
			dst = append(dst, src[i:i+n]...)
			i += n
			continue
		case i+1 >= len(src):
			return dst, false
		}
		i += 2
		switch src[i-1] {
		case '"', '\\', '/':
			dst = append(dst, src[i-1])
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, ok := hex4(src[i:])
			if !ok {
				return dst, false
			}
			i += 4
			if utf16.IsSurrogate(r) && i+1 < len(src) && src[i] == '\\' && src[i+1] == 'u' {
				if low, ok := hex4(src[i+2:]); ok {
					if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
						r = full
						i += 6
					}
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			return dst, false
		}
	}
	return dst, true
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// quote appends s as a JSON string.
func quote(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\':
				dst = append(dst, '\\', c)
			case c < 0x20 || c == 0x7f:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			default:
				dst = append(dst, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		dst = utf8.AppendRune(dst, r) // an invalid byte becomes U+FFFD
		i += n
	}
	return append(dst, '"')
}
