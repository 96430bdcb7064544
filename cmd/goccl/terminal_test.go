package main

import "testing"

func TestCut(t *testing.T) {
	for _, c := range []struct {
		line, want string
		columns    int
	}{
		{"abcdef\n", "abc\n", 3},
		{"abc\n", "abc\n", 3},
		{"\x1b[31mäöüß\x1b[0m\n", "\x1b[31mäö\x1b[0m\n", 2}, // colours end behind the edge
		{"\x1b[H\x1b[2Jabc", "\x1b[H\x1b[2Jab", 2},
		{"abcdef\n", "abcdef\n", 0},
		{"ab\x1b[", "ab\x1b[", 2},
	} {
		if got := string(cut([]byte(c.line), c.columns)); got != c.want {
			t.Errorf("%q at %d columns: %q, want %q", c.line, c.columns, got, c.want)
		}
	}
}
