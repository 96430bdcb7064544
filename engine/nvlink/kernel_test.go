package nvlink

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/kernels"
)

// Every kernel that an engine launches has one exit, after its ticket update; GOCCL_KERNEL ensures that. With another
// exit, the next operation on another stream would wait forever.
func TestEveryKernelFinishes(t *testing.T) {
	for _, group := range kernels.Groups() {
		if slices.Contains([]string{"executor", "primitive", "probe"}, group) { // outside of the order of work
			continue
		}
		image, err := kernels.Image(group, 99, 0) // text
		if err != nil {
			t.Fatal(err)
		}
		entries := bytes.Split(image, []byte(".visible .entry "))[1:]
		if names := kernels.Names(group); len(entries) != len(names) || len(names) == 0 {
			t.Errorf("%s: found %d of %d kernels", group, len(entries), len(names))
		}
		ticket := []byte("red.release.gpu.global.add.u64")
		for _, e := range entries {
			name, _, _ := bytes.Cut(e, []byte("("))
			body, _, _ := bytes.Cut(e, []byte("\n}")) // functions may follow
			before, after, _ := bytes.Cut(body, ticket)
			for _, way := range []string{"ret;", "exit;", "trap;"} {
				want := plain.Bit[int](way == "ret;")
				if bytes.Contains(before, []byte(way)) || bytes.Count(after, []byte(way)) != want || bytes.Contains(after, ticket) {
					t.Errorf("%s has a %s that is not past its one ticket: declare kernels with GOCCL_KERNEL", name, way)
				}
			}
		}
	}
}

// Tables accept the names that goccl tune tries.
func TestNumbers(t *testing.T) {
	for c := range collective.NumCollectives {
		for _, name := range Variants(c) {
			for _, n := range Numbers(name) {
				v, err := parseVariant(c, fmt.Sprintf("%s/%d", name, n))
				if err != nil || v.String() != fmt.Sprintf("%s/%d", name, n) {
					t.Errorf("%v: %s/%d is %v, %v", c, name, n, v, err)
				}
			}
		}
	}
}
