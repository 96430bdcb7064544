package dsl_test

import (
	"fmt"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/verify"
)

func Example() {
	p := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "exchange", Collective: dsl.AllGather(2, 1, false)})
	for r := range 2 {
		q := 1 - r
		me, to := p.Rank(r), p.MemoryChannel(q, r)
		me.Copy(me.Output().Chunk(r), me.Input().Chunk(0))
		to.Signal(dsl.Relaxed())
		to.Wait(dsl.Relaxed())
		to.Put(p.Rank(q).Output().Chunk(r), me.Input().Chunk(0))
		to.Signal()
		to.Wait()
	}
	compiled, err := p.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = verify.Check(compiled, verify.Options{})
	fmt.Println(err)
	for _, tb := range compiled.GPUs[0].ThreadBlocks {
		var names []plan.OpName
		for _, op := range tb.Ops {
			names = append(names, op.Name)
		}
		fmt.Println(names)
	}
	// Output:
	// <nil>
	// [copy]
	// [rlxsignal rlxwait nop put nop signal wait]
}
