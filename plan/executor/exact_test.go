package executor

import (
	"errors"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
)

// TestKeeps: from batch on a plan runs a sum of floats only if it gives the bits of the engine.
func TestKeeps(t *testing.T) {
	const run, batch, placement = setting.ExactRun, setting.ExactBatch, setting.ExactPlacement
	for _, c := range []struct {
		exact                           setting.Exact
		ranks                           int
		inRankOrder, once, hosts, keeps bool
		typ                             datatype.Type
		op                              datatype.Op
		gpu                             bool
	}{
		{run, 3, false, false, true, true, datatype.Bfloat16, datatype.Sum, true},
		{batch, 3, false, false, false, true, datatype.Int32, datatype.Sum, true},
		{batch, 3, false, true, false, false, datatype.Float32, datatype.Sum, true},
		{batch, 2, false, true, false, true, datatype.Float32, datatype.Sum, true},
		{batch, 3, true, false, false, true, datatype.Float32, datatype.Avg, true},
		{batch, 3, true, false, false, false, datatype.Float16, datatype.Sum, true},
		{batch, 3, true, true, false, true, datatype.Float16, datatype.Sum, true},
		{batch, 3, true, true, false, false, datatype.Float16, datatype.Avg, true},
		{batch, 3, true, true, true, false, datatype.Float32, datatype.Sum, true},
		{placement, 3, true, true, true, true, datatype.Float32, datatype.Sum, true},
		{batch, 9, true, true, false, false, datatype.Float16, datatype.Sum, true}, // adds up eight, then one
		{batch, 9, true, true, false, true, datatype.Float32, datatype.Sum, true},
		{batch, 9, true, true, false, true, datatype.Float16, datatype.Sum, false},
	} {
		e := &Executor{size: c.ranks, cfg: Config{Job: collective.Job{Bootstrap: bootstrap.NewLocalGroup(1)[0],
			Settings: &setting.Config{Exact: c.exact}}}}
		if e.here = e.cfg.Bootstrap; c.hosts {
			e.here = nil
		}
		x := &ExecutionPlan{e: e, plan: &plan.Plan{Name: "p"}, inRankOrder: c.inRankOrder, once: c.once}
		if c.gpu {
			x.encoded = new(gpuProgram)
		}
		err := x.keeps(&collective.Request{Collective: collective.AllReduce, Type: c.typ, Op: c.op})
		if (err == nil) != c.keeps || err != nil && !errors.Is(err, collective.ErrUnsupported) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
