package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/interp"
)

// tiled is an all-gather of tiles: each tile goes to all peers when the caller has written it, and the caller of a rank
// reads what comes from each peer while the rest is under way. The flags leave a step out, or misplace it.
type tiled struct {
	ranks, tiles int
	noWait       bool // the first tile is not waited for
	late         bool // it is waited for when it has been sent
	noNop        bool // nothing joins the block's threads behind the wait
	twice        bool // the first tile is waited for twice
	noSignal     bool // no signal tells the caller that data has come
	early        bool // it is told before it has come
	writes       bool // the program writes where the caller reads
	after        bool // the caller writes its tiles after it has read what the others sent
	again        bool // it is told a second time
}

func (o tiled) program() *dsl.CollectiveProgram {
	n, tiles := o.ranks, o.tiles
	p := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "tiled", Collective: dsl.AllGather(n, tiles, false),
		MinMessageSize: 1, MaxMessageSize: 1 << 30, NoFusion: true, NoAutoSync: true})
	to := map[[2]int]*dsl.MemoryChannel{}
	each := func(f func(r, q int)) {
		for r := range n {
			for q := range n {
				if q != r {
					f(r, q)
				}
			}
		}
	}
	none := dsl.Sync(dsl.SyncNone)
	tb := dsl.TB(0)
	each(func(r, q int) { to[[2]int{r, q}] = p.MemoryChannel(q, r) })
	each(func(r, q int) { to[[2]int{r, q}].Signal(tb, none, dsl.Relaxed()) })
	each(func(r, q int) { to[[2]int{r, q}].Wait(tb, none, dsl.Relaxed()) })
	for r := range n {
		var got []*dsl.Hook
		for q := range n {
			if q != r {
				got = append(got, p.OutputHook(p.Rank(r).Output().Slice(q*tiles, (q+1)*tiles)))
			}
		}
		for k := range tiles {
			in := p.Rank(r).Input().Chunk(k)
			var after []*dsl.Hook
			if o.after {
				after = got
			}
			h := p.InputHook(in, after...)
			first := k == 0
			if !(first && (o.noWait || o.late)) {
				h.Wait(tb, none)
			}
			if first && o.twice {
				h.Wait(tb, none)
			}
			if !(first && o.noNop) {
				p.Rank(r).Barrier(0)
			}
			p.Rank(r).Copy(p.Rank(r).Output().Chunk(r*tiles+k), in, tb)
			for q := range n {
				if q != r {
					to[[2]int{r, q}].Put(p.Rank(q).Output().Chunk(r*tiles+k), in, tb)
				}
			}
			if first && o.late {
				p.Rank(r).Barrier(0)
				h.Wait(tb, none)
			}
		}
		p.Rank(r).Barrier(0)
		for q := range n {
			if q != r {
				to[[2]int{r, q}].Signal(tb, none)
			}
		}
		if o.early {
			for _, h := range got {
				h.Signal(tb, none)
			}
		}
		for q := range n {
			if q != r {
				to[[2]int{r, q}].Wait(tb, none)
			}
		}
		p.Rank(r).Barrier(0)
		if o.noSignal || o.early {
			continue
		}
		for _, h := range got {
			h.Signal(tb, none)
			if o.again {
				h.Signal(tb, none)
			}
		}
		if o.writes {
			p.Rank(r).Copy(p.Rank(r).Output().Chunk((r+1)%n*tiles), p.Rank(r).Output().Chunk((r+1)%n*tiles), tb)
		}
	}
	return p
}

func (o tiled) compile(t *testing.T) *plan.Plan {
	t.Helper()
	made, err := o.program().Compile()
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Decode(made.Encode())
	if err != nil {
		t.Fatal(err)
	}
	p.Origins = made.Origins
	return p
}

// TestHooks proves plans with hooks, and runs them in every order.
func TestHooks(t *testing.T) {
	for _, o := range []tiled{{ranks: 2, tiles: 1}, {ranks: 2, tiles: 3}, {ranks: 3, tiles: 2}, {ranks: 5, tiles: 4}} {
		p := o.compile(t)
		report, err := verify.Check(p, verify.Options{})
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		if report.EvenOnly {
			t.Errorf("%+v: even messages only", o)
		}
		for seed := range uint64(8) {
			n := uint64(o.ranks)
			if err := interp.CheckCollective(p, []uint64{48 * n, 200 * n, 16 * n}, seed); err != nil {
				t.Errorf("%+v: %v", o, err)
			}
		}
	}
	for _, o := range []tiled{{ranks: 2, tiles: 1}, {ranks: 2, tiles: 2}} {
		sizes := []uint64{32 * uint64(o.tiles), 64}
		if _, err := interp.Explore(o.compile(t), interp.ExploreOptions{Sizes: sizes}); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestHooksMisused holds that the verifier refuses misused hooks, and that some order of steps does go wrong.
func TestHooksMisused(t *testing.T) {
	for name, c := range map[string]struct {
		tiled
		kind verify.Kind
		says string
	}{
		"tile not awaited":            {tiled{noWait: true}, verify.Unbalanced, "hook"},
		"awaited when it is sent":     {tiled{late: true}, verify.DataRace, "the caller of rank"},
		"no nop behind the wait":      {tiled{noNop: true}, verify.DataRace, "no nop tells the others"},
		"awaited twice":               {tiled{twice: true}, verify.Deadlock, "never answered"},
		"never told":                  {tiled{noSignal: true}, verify.Deadlock, "never answered"},
		"told twice":                  {tiled{again: true}, verify.Unbalanced, "hook"},
		"told too early":              {tiled{early: true}, verify.DataRace, "at hook"},
		"written when it has been":    {tiled{writes: true}, verify.DataRace, "at hook"},
		"each waits for the other":    {tiled{after: true}, verify.Deadlock, "the caller of rank"},
		"too early, and not final":    {tiled{early: true, ranks: 3}, verify.DataRace, "at hook"},
		"three wait for each other":   {tiled{after: true, ranks: 3}, verify.Deadlock, "hook"},
		"a tile of three not awaited": {tiled{noWait: true, tiles: 3}, verify.Unbalanced, "hook"},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.tiled
			o.ranks, o.tiles = max(2, o.ranks), max(1, o.tiles)
			p := o.compile(t)
			_, err := verify.Check(p, verify.Options{})
			var wrong *verify.Violation
			if !errors.As(err, &wrong) || wrong.Kind != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("the verifier says %v", err)
			}
			if o.ranks > 2 || o.tiles > 1 {
				return
			}
			if _, err := interp.Explore(p, interp.ExploreOptions{Sizes: []uint64{32, 64}}); err == nil && !o.again {
				t.Errorf("no order of steps shows %v", wrong)
			}
		})
	}
}

// TestHooksInvalid holds that the structure of hooks is checked, with the place in the file.
func TestHooksInvalid(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *plan.Hook, op *plan.Op)
		says   string
	}{
		"scratch":       {func(h *plan.Hook, _ *plan.Op) { h.Type = plan.Scratch }, "guards input"},
		"out of bounds": {func(h *plan.Hook, _ *plan.Op) { h.Index = 1 }, "chunks 1 to 1"},
		"nothing":       {func(h *plan.Hook, _ *plan.Op) { h.Size = 0 }, "chunks"},
		"after itself":  {func(h *plan.Hook, _ *plan.Op) { h.After = []int{1} }, "comes after hook 1"},
		"after twice":   {func(h *plan.Hook, _ *plan.Op) { h.After = []int{0, 0} }, "comes twice"},
		"signals input": {func(_ *plan.Hook, op *plan.Op) { op.Name = plan.SignalHook }, "wait_hook is for input"},
		"no such hook": {func(_ *plan.Hook, op *plan.Op) { op.ChannelIDs = []int{9} },
			"channel 9 of the 2 hook channels"},
		"waits as channel": {func(_ *plan.Hook, op *plan.Op) { op.Name = plan.Wait }, `does not work over "hook"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := tiled{ranks: 2, tiles: 1}.compile(t)
			g := &p.GPUs[1]
			var op *plan.Op
			for _, o := range g.Ops() {
				if o.Name == plan.WaitHook {
					op = o
				}
			}
			c.change(&g.Channels[1].Hooks[1], op)
			_, err := plan.Decode(p.Encode())
			if err == nil {
				err = p.Validate(&plan.Capacity)
			}
			var wrong *plan.Error
			if !errors.As(err, &wrong) || wrong.Pos.Rank != 1 || !strings.Contains(err.Error(), c.says) {
				t.Error(err)
			}
		})
	}
	p := tiled{ranks: 2, tiles: 1}.compile(t)
	if err := p.Validate(&plan.Portable); !errors.Is(err, plan.ErrLimit) {
		t.Errorf("a plan with hooks is portable: %v", err)
	}
}

// TestHookInPipeline holds that the same hook cannot be awaited again and again.
func TestHookInPipeline(t *testing.T) {
	p := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "x", Collective: dsl.AllGather(1, 1, false)})
	h := p.InputHook(p.Rank(0).Input().Chunk(0))
	p.BeginLoop(16, 1)
	h.Wait(dsl.TB(0))
	p.Rank(0).Copy(p.Rank(0).Output().Chunk(0), p.Rank(0).Input().Chunk(0), dsl.TB(0))
	p.EndLoop()
	made, err := p.Compile()
	if err == nil {
		err = made.Validate(&plan.Capacity)
	}
	if err == nil || !strings.Contains(fmt.Sprint(err), "in a pipeline") {
		t.Error(err)
	}
}
