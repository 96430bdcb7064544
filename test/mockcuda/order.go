package mockcuda

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Communicator tells the communicators of launches apart: by the address of the abort word, which every kernel of
// kernels/collective has behind its ticket and 16 windows. 0 is a kernel of another kind.
func Communicator(launch Call) uint64 {
	const at = 8 + 8*16
	if len(launch.Params) < at+8 {
		return 0
	}
	return binary.NativeEndian.Uint64(launch.Params[at:])
}

// InOrder looks, in a trace with a seed, whether the kernels of each owner ran one after the other, in the order in
// which the host launched them, or launched the graphs that they are in. owner returns the owner of a launch; launches
// of owner 0 are ignored. Every graph must have been captured, and all work done, within the trace.
func InOrder(calls []Call, owner func(Call) uint64) error {
	var owners []uint64
	of := map[uint64]uint64{} // by number of the launch
	for _, c := range calls {
		if c.Kind != Launch {
			continue
		}
		of[c.B] = owner(c)
		if !slices.Contains(owners, of[c.B]) {
			owners = append(owners, of[c.B])
		}
	}
	for _, o := range owners {
		if o == 0 {
			continue
		}
		if err := inOrder(calls, func(kernel uint64) bool { return of[kernel] == o }); err != nil {
			return fmt.Errorf("communicator %#x: %w", o, err)
		}
	}
	return nil
}

func inOrder(calls []Call, ours func(uint64) bool) error {
	var want, got []uint64
	captured := map[uint64][]uint64{}
	running := uint64(0)
	for i, c := range calls {
		switch {
		case c.Kind == Launch && ours(c.B) && c.C != 0:
			captured[c.C] = append(captured[c.C], c.B)
		case c.Kind == Launch && ours(c.B):
			want = append(want, c.B)
		case c.Kind == GraphLaunch:
			want = append(want, captured[c.C]...)
		case c.Kind == Begin && ours(c.A):
			if running != 0 {
				return fmt.Errorf("kernel %d begins before kernel %d has ended\n%s", c.A, running, history(calls[:i+1], ours))
			}
			if k := len(got); k >= len(want) || want[k] != c.A {
				return fmt.Errorf("kernel %d begins out of turn\n%s", c.A, history(calls[:i+1], ours))
			}
			got, running = append(got, c.A), c.A
		case c.Kind == End && running == c.A:
			running = 0
		}
	}
	if !slices.Equal(got, want) || running != 0 {
		return fmt.Errorf("%d kernels have run of %d; kernel %d still runs", len(got), len(want), running)
	}
	return nil
}

// history is the latest of what happened to an owner.
func history(calls []Call, ours func(uint64) bool) string {
	var lines []string
	captured := map[uint64]bool{}
	for _, c := range calls {
		switch {
		case c.Kind == Launch && ours(c.B):
			captured[c.C] = true
			lines = append(lines, fmt.Sprintf("kernel %d on stream %#x, capture %d", c.B, c.Stream, c.C))
		case c.Kind == GraphLaunch && captured[c.C]:
			lines = append(lines, fmt.Sprintf("graph of capture %d on stream %#x", c.C, c.Stream))
		case (c.Kind == Begin || c.Kind == End) && ours(c.A):
			lines = append(lines, fmt.Sprintf("    %v %d", c.Kind, c.A))
		}
	}
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}
