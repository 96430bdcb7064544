package verify

import "fmt"

// between notes the state between two launches, when all ranks are about to begin the second of them. Two runs that are
// in equal states there take the same steps from there on, if they have the same numbers of iterations from there on:
// all that the state leaves out is in memory, and makes no difference.
//
//   - The callers have just rewritten all input and output.
//   - An access to scratch is refused unless all accesses of the launch before, to the same half, are known to be over
//     (walker.enter). Then they are no race in its cells either, and cells of earlier launches are in the other half.
//   - A value that scratch still has from an earlier launch is wrong in every output, whichever it is.
//
// Packets have more state than that, and plans with packets are run with all combinations.
func (v *verifier) between() {
	launch := len(v.starts) + 1
	if v.p.UsesPackets() || launch >= v.report.Launches {
		return
	}
	for _, b := range v.blocks {
		if v.quotient.own(b.rank) && (b.done || b.ended || b.launch != launch || b.pc != 0) {
			return
		}
	}
	_, d := v.write((*snapshot).state)
	v.starts = append(v.starts, d)
}

// combined records the runs whose launches have different numbers of iterations.
type combined struct {
	starts map[string]digest // by the numbers of the launches before: the state in which the next begins
	passed map[string]bool   // by such a state and the numbers of the launches from there on
}

func (c *combined) note(byLaunch []turns, starts []digest) {
	for i, d := range starts {
		c.starts[fmt.Sprint(byLaunch[:i+1])] = d
		c.passed[fmt.Sprint(d, byLaunch[i+1:])] = true
	}
}

// follows reports whether nothing new can come of a run: its first launches have been run, and what comes after them,
// from an equal state.
func (c *combined) follows(byLaunch []turns) bool {
	for i := 1; i < len(byLaunch); i++ {
		if d, found := c.starts[fmt.Sprint(byLaunch[:i])]; found && c.passed[fmt.Sprint(d, byLaunch[i:])] {
			return true
		}
	}
	return false
}
