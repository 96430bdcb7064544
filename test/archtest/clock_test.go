package archtest

import (
	"go/ast"
	"go/token"
	"testing"
)

// wallClock names the packages that may read the wall clock: for times that people read, and for times in other
// programs' records. All else, deadlines above all, uses time.Time with its monotonic part, or internal/wait.
var wallClock = []string{"watch/observe", "watch/record", "cmd/...", "bench/...", "test/...", "examples/..."}

// No deadline is on the wall clock, which may jump. What takes a time without its monotonic part is refused: Unix and
// its like, Round and Truncate of time.Now, and times made from numbers. time.Unix(1, 0) is long ago by any clock.
func TestDeadlinesAreMonotonic(t *testing.T) {
	found := map[bool]int{}
	for _, p := range list(t) {
		path, _ := inside(p.ImportPath)
		allowed := anyMatches(wallClock, path)
		p.inspect(t, func(n ast.Node, place func() token.Position) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !readsWallClock(call) {
				return true
			}
			if found[allowed]++; !allowed {
				t.Errorf("%s: this is the wall clock, which may jump: use time.Since, time.Until or internal/wait", place())
			}
			return true
		})
	}
	if found[true] == 0 {
		t.Error("no use of the wall clock was found: this test sees nothing any more")
	}
}

func readsWallClock(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, _ := s.X.(*ast.Ident)
	switch s.Sel.Name {
	case "Unix", "UnixNano", "UnixMicro", "UnixMilli":
		return len(call.Args) == 0 || of != nil && of.Name == "time" && text(call.Args[0]) != "1 "
	case "Date", "Parse":
		return of != nil && of.Name == "time"
	case "Round", "Truncate":
		now, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		inner, ok := now.Fun.(*ast.SelectorExpr)
		return ok && inner.Sel.Name == "Now"
	}
	return false
}
