package dsl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/verify"
)

// TestCounterexampleNamesTheAuthorsLines: the put of the second chunk has no entry handshake. With two instances the
// plan has twice the author's number of chunks.
func TestCounterexampleNamesTheAuthorsLines(t *testing.T) {
	p := NewCollectiveProgram(AlgoSpec{Name: "hasty", Collective: Custom("hand_over", 2, 2, 2, false,
		func(rank, chunk int) []Contribution {
			if rank == 0 || chunk == 0 {
				return nil
			}
			return []Contribution{{Rank: 0, Chunk: 1}}
		}), Instances: 2})
	to, from := p.MemoryChannel(1, 0), p.MemoryChannel(0, 1)
	here := p.position()
	to.Put(p.Rank(1).Output().Chunk(1), p.Rank(0).Input().Chunk(1), TB(0))
	to.Signal(TB(0))
	from.Wait(TB(0))
	made, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	_, err = verify.Check(made, verify.Options{})
	line := fmt.Sprintf("(put), at %s:%d, writes output of rank 1, chunk 1, part 1 of 2", here.File, here.Line+1)
	if err == nil || !strings.Contains(err.Error(), line) {
		t.Errorf("%v, want %q", err, line)
	}
	again, err := plan.Decode(made.Encode())
	if err != nil || again.Origins != nil {
		t.Errorf("a file says where it comes from: %v, %v", again.Origins, err)
	}
	if _, err := verify.Check(again, verify.Options{}); err == nil || !strings.Contains(err.Error(), "chunk 2 (bytes") {
		t.Errorf("%v", err)
	}
}

// TestOriginsOfPipelines: ops inside of pipelines have their own lines.
func TestOriginsOfPipelines(t *testing.T) {
	p := pipelined()
	made, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for r := range made.GPUs {
		for b := range made.GPUs[r].ThreadBlocks {
			n := 0
			for _, op := range made.GPUs[r].ThreadBlocks[b].Ops {
				n += 1 + len(op.Ops)
			}
			if have := len(made.Origins.Ops[r][b]); have != n {
				t.Errorf("rank %d, block %d: %d lines of %d ops", r, b, have, n)
			}
		}
	}
}
