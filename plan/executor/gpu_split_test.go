package executor

import (
	"errors"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan"
)

// longSum is an in-place plan of one rank that adds ten chunks. The source at position same is also the destination.
func longSum(same, destination int) *plan.Plan {
	p := &plan.Plan{SchemaVersion: plan.SchemaVersion, Name: "long_sum", Collective: "fold", Protocol: plan.Simple,
		InPlace: true, ThreadsPerBlock: 32, Alignment: 16, MaxSize: 1 << 30}
	op := plan.Op{Name: plan.ReduceLocal, Dst: []plan.Chunk{plan.Local(plan.Output, destination, 1)}}
	end := plan.Postcond{Rank: 0, Index: destination, Size: 1}
	for k := range 10 {
		src := (k - same + destination + 10) % 10
		op.Src = append(op.Src, plan.Local(plan.Input, src, 1))
		end.Of = append(end.Of, plan.Contribution{Rank: 0, Index: src})
	}
	p.Postcondition = []plan.Postcond{end}
	p.GPUs = []plan.GPU{{InputChunks: 10, OutputChunks: 10, ThreadBlocks: []plan.ThreadBlock{{Ops: []plan.Op{op}}}}}
	return p
}

// kernelLongSums: more sources than a kernel op takes, one of which is, in place, the destination.
func kernelLongSums(t *testing.T, program string) {
	for same := range 10 {
		p := longSum(same, 3)
		if _, err := Check(p); err != nil {
			t.Fatal(err)
		}
		prog, err := compile(p, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := encode(prog, 10); same >= gpuOperands {
			if !errors.Is(err, collective.ErrUnsupported) {
				t.Errorf("source %d of 10 is overwritten before it is read: %v", same, err)
			}
			continue
		}
		c := emulation{plan: p, message: 10 * 160, t: datatype.Int32, threads: 3, launches: 1}
		if err := c.run(t, program); err != nil {
			t.Errorf("source %d of 10 is the destination: %v", same, err)
		}
	}
}
