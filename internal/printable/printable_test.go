package printable_test

import (
	"testing"

	"github.com/goccl/goccl/internal/printable"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"decode-0 über 日本":          "decode-0 über 日本",
		"a\x1b[2Jb\nc\rd\te\x00f":   "a?[2Jb?c?d?e?f",
		"\u009b31m\u202eabc\u2028d": "?31m?abc?d",
		"broken \xff\x1b":           "broken \ufffd?",
	} {
		if got := printable.Line(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	a, b := "x\x1b", "y"
	if printable.Strings(&a, &b); a != "x?" || b != "y" {
		t.Error(a, b)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 ranks", 1: "1 rank", 2: "2 ranks"} {
		if got := printable.Count(n, "rank"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 3 << 19: "1.5 MiB",
		1000 << 20: "1000 MiB", 5 << 30: "5 GiB"} {
		if got := printable.Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
