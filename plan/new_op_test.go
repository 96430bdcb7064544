package plan_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/plan/simulate"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/interp"
)

// getWithSignal is an op that the format does not have: it reads from peers and then tells them that it has.
func getWithSignal(does plan.Effects) plan.OpKind {
	k := *plan.Get.Kind()
	k.Name, k.Word, k.Does = "gws", "get_with_signal", does
	return k
}

// getAll is an all-gather in which every rank reads its peers' input by that op, and ends when all have read its own.
func getAll(ranks int) *dsl.Document {
	doc := &dsl.Document{AlgoSpec: dsl.AlgoSpec{Name: "getall", WorldSize: ranks}, Collective: "allgather"}
	channel := map[[2]int]int{}
	peers := func(f func(r, q int)) {
		for r := range ranks {
			for q := range ranks {
				if q != r {
					f(r, q)
				}
			}
		}
	}
	do := func(c dsl.Command) {
		if tb := 0; c.Op != "memory_channel" {
			c.TB = &tb
		}
		doc.Commands = append(doc.Commands, c)
	}
	peers(func(r, q int) {
		channel[[2]int{r, q}] = len(channel)
		do(dsl.Command{Op: "memory_channel", Dst: q, Src: r})
	})
	on := func(op string, r, q int, relaxed bool) dsl.Command {
		return dsl.Command{Op: op, ChannelType: plan.MemoryChannel, Channel: channel[[2]int{r, q}], Relaxed: relaxed}
	}
	peers(func(r, q int) { do(on("signal", r, q, true)) })
	peers(func(r, q int) { do(on("wait", r, q, true)) })
	chunk := func(rank int, b dsl.BufferType, i int) *dsl.ChunkRef {
		return &dsl.ChunkRef{Rank: rank, Buffer: b, Index: i, Size: 1}
	}
	for r := range ranks {
		do(dsl.Command{Op: "copy", To: chunk(r, dsl.Output, r), From: chunk(r, dsl.Input, 0)})
	}
	peers(func(r, q int) {
		c := on("get_with_signal", r, q, false)
		c.To, c.From = chunk(r, dsl.Output, q), chunk(q, dsl.Input, 0)
		do(c)
	})
	peers(func(r, q int) { do(on("wait", r, q, false)) })
	return doc
}

func compileNewOp(t *testing.T, ranks int) *plan.Plan {
	t.Helper()
	prog, err := dsl.FromDocument(getAll(ranks))
	if err != nil {
		t.Fatal(err)
	}
	made, err := prog.Compile()
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Decode(made.Encode())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestNewOp adds an op to the table, and nothing else: the language, the file, the verifier, the interpreter, the
// simulator and the executor know it.
func TestNewOp(t *testing.T) {
	plan.WithOp(t, getWithSignal(plan.Moves|plan.Adds))
	p := compileNewOp(t, 3)
	if _, err := verify.Check(p, verify.Options{}); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(8) {
		if err := interp.CheckCollective(p, []uint64{48, 96, 120}, seed); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := interp.Explore(compileNewOp(t, 2), interp.ExploreOptions{Sizes: []uint64{32}, Threads: 2}); err != nil {
		t.Error(err)
	}
	m, err := simulate.NamedMachine("h200")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := simulate.Run(p, m, 3<<20); err != nil || r.Micros <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	runNewOp(t, p)
}

// runNewOp runs p on the host device and checks the gathered output.
func runNewOp(t *testing.T, p *plan.Plan) {
	ctx := t.Context()
	var ranks sync.WaitGroup
	for _, boot := range bootstrap.NewLocalGroup(len(p.GPUs)) {
		ranks.Go(func() {
			if err := errors.Join(runRank(ctx, boot, p), boot.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	ranks.Wait()
}

func runRank(ctx context.Context, boot bootstrap.Bootstrap, p *plan.Plan) (err error) {
	dev, err := host.Open(boot.Rank())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	e, err := executor.New(executor.Config{Job: collective.Job{Bootstrap: boot, Device: dev}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	x, err := e.Load(ctx, p)
	if err != nil {
		return err
	}
	for i, message := range []uint64{48, 3000, 3 << 16} {
		if _, err := planrun.Rank(ctx, x, boot.Rank(), dev, planrun.Case{Message: message, Type: datatype.Int32,
			Op: datatype.Sum, Seed: uint64(i), Fresh: 3}); err != nil {
			return err
		}
	}
	return nil
}

// TestNewOpIsExamined changes what the table says of the op: if it does not signal, the same plan waits for ever.
func TestNewOpIsExamined(t *testing.T) {
	var file []byte
	t.Run("signals", func(t *testing.T) {
		plan.WithOp(t, getWithSignal(plan.Moves|plan.Adds))
		file = compileNewOp(t, 2).Encode()
	})
	plan.WithOp(t, getWithSignal(plan.Moves))
	p, err := plan.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	var wrong *verify.Violation
	if _, err := verify.Check(p, verify.Options{}); !errors.As(err, &wrong) || wrong.Kind != verify.Deadlock {
		t.Errorf("the verifier says %v", err)
	}
	var dead *interp.DeadlockError
	if err := interp.CheckCollective(p, []uint64{32}, 1); !errors.As(err, &dead) {
		t.Errorf("the interpreter says %v", err)
	}
}
