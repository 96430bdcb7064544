package simulate

import (
	"fmt"
	"strings"
)

// Timeline returns the run as text: one line per op in the order of their starts, at most n; n 0 means all.
func (r *Result) Timeline(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9s %9s  %s\n", "start us", "end us", "what")
	for i := range r.spans {
		if n > 0 && i == n {
			fmt.Fprintf(&b, "… %d more\n", len(r.spans)-n)
			break
		}
		s := r.Span(i)
		fmt.Fprintf(&b, "%9.3f %9.3f  rank %d block %d  %s", s.Start, s.End, s.Rank, s.Block, s.Op)
		if s.Cause >= 0 {
			c := r.Span(s.Cause)
			fmt.Fprintf(&b, "  after %s of rank %d block %d", c.Op, c.Rank, c.Block)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
