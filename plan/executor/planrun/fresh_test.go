package planrun_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor/planrun"
)

// late is an all-reduce of one rank that outputs what the previous execution has left in scratch.
func late() *plan.Plan {
	move := func(src, dst plan.Chunk) plan.Op {
		return plan.Op{Name: plan.Copy, Src: []plan.Chunk{src}, Dst: []plan.Chunk{dst}}
	}
	in, out, scratch := plan.Local(plan.Input, 0, 1), plan.Local(plan.Output, 0, 1), plan.Local(plan.Scratch, 0, 1)
	return &plan.Plan{SchemaVersion: plan.SchemaVersion, Name: "late", Collective: plan.AllReduce, Protocol: plan.Simple,
		ThreadsPerBlock: 32, Alignment: 16,
		MaxSize: 1 << 30, GPUs: []plan.GPU{{InputChunks: 1, OutputChunks: 1, ScratchChunks: 1,
			ThreadBlocks: []plan.ThreadBlock{{Ops: []plan.Op{move(scratch, out), {Name: plan.Nop}, move(in, scratch)}}}}}}
}

// TestStaleScratchShows: with the same data in every execution, a plan that outputs the previous execution's data would
// pass.
func TestStaleScratchShows(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	run := func(c planrun.Case) error {
		return planrun.Threads(ctx, planrun.Options{Plan: late(), Cases: []planrun.Case{c}, Timeout: 10 * time.Second,
			Trusted: true,
			Open:    func(r int) (device.Device, error) { return host.Open(r) }})
	}
	c := planrun.Case{Message: 4096, Type: datatype.Float32, Times: 5}
	if err := run(c); err != nil {
		t.Fatalf("the plan does not do what this test is about: %v", err)
	}
	for _, inPlace := range []bool{false, true} {
		c := c
		c.Fresh, c.InPlace = 1, inPlace
		if inPlace {
			c.Times = 1
		}
		if err := run(c); err == nil || !strings.Contains(err.Error(), "execution 1, on fresh data") {
			t.Errorf("in place %v: %v", inPlace, err)
		}
	}
}
