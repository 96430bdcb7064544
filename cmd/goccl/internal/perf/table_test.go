package perf

import (
	"bytes"
	"strings"
	"testing"
)

// The last columns say which part of the GPU a row took: of all forms and libraries, behind nccl-tests' columns.
func TestTableOfSMs(t *testing.T) {
	var b bytes.Buffer
	table := NewTable(&b, nil, []string{"ours", "theirs"}, Config{})
	table.Point([]Row{{Library: "ours", Blocks: 192, SMs: 132}, {Library: "theirs"},
		{Library: "ours", Blocks: 1, SMs: 1, Copies: true}, {Library: "theirs"}})
	table.Point([]Row{{Library: "ours", Blocks: 8, SMs: 8, Copies: true}, {Library: "theirs"}})
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, want := range map[int]string{1: "SMs SMs SMs SMs", 3: "132 - CE -", 4: "8+CE - N/A N/A"} {
		words := strings.Fields(lines[i])
		if got := strings.Join(words[len(words)-4:], " "); got != want {
			t.Errorf("line %d ends with %q, want %q", i, got, want)
		}
	}
}
