package interp_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/symmetry"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/mutant"
)

// foldShapes are the shapes in which programs are folded. With three hosts or more, some programs move several chunks
// at a time.
var foldShapes = []programs.Options{{Ranks: 2}, {Ranks: 3}, {Ranks: 4}, {Ranks: 6, Hosts: 2}, {Ranks: 6, Hosts: 3}}

// eachFold calls f for every shipped program that folds, in several shapes.
func eachFold(t *testing.T, shapes []programs.Options, f func(name string, p *plan.Plan)) {
	t.Helper()
	folds := map[string]int{}
	for _, p := range programs.All() {
		for _, o := range shapes {
			for _, inPlace := range []bool{false, true} {
				o.InPlace, o.Instances = inPlace, 2
				if p.Supports(o) != nil || o.Ranks > 8 && p.Name != "allreduce_hierarchical" {
					continue
				}
				pl, err := p.Build(o)
				if err != nil {
					t.Fatal(err)
				}
				if symmetry.Fold(pl) != nil {
					folds[p.Name]++
					f(fmt.Sprintf("%s/%d-%d-%v", p.Name, o.Ranks, o.Hosts, inPlace), pl)
				}
			}
		}
	}
	for _, name := range []string{"allreduce_ring", "allreduce_hierarchical", "allgather_direct", "alltoall_direct",
		"reducescatter_push", "sendrecv_direct", "allreduce_twoshot_ll"} {
		if folds[name] == 0 {
			t.Errorf("%s does not fold", name)
		}
	}
}

// Where a plan folds, the check of representatives says what the check of all ranks says.
func TestFoldedCheckAgrees(t *testing.T) {
	shapes := append(foldShapes, programs.Options{Ranks: 8, Hosts: 4}, programs.Options{Ranks: 32, Hosts: 16})
	eachFold(t, shapes, func(name string, p *plan.Plan) {
		f := symmetry.Fold(p)
		want, err := verify.Check(p, verify.Options{Whole: true})
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := verify.CheckFolded(f, verify.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if got.Examined*f.Symmetry.Order() != want.Examined || got.EvenOnly != want.EvenOnly ||
			got.Operator != want.Operator || got.Shapes != want.Shapes {
			t.Errorf("%s: %+v, whole %+v", name, got, want)
		}
	})
}

// verdict is the kind of a check's answer.
func verdict(err error) string {
	var v *verify.Violation
	switch {
	case err == nil:
		return "right"
	case errors.As(err, &v):
		return "wrong"
	}
	return "not examined"
}

// Wrong plans, too: a change that all ranks share, and one on a single rank, which breaks the symmetry.
func TestFoldedCheckAgreesOnMutants(t *testing.T) {
	n := 14
	if os.Getenv("GOCCL_FULL") != "" {
		n = 200
	}
	same, broken, wrong := 0, 0, 0
	rng := rand.New(rand.NewPCG(1, 2))
	eachFold(t, foldShapes, func(name string, p *plan.Plan) {
		text := p.Encode()
		order := symmetry.Fold(p).Symmetry.Order()
		for i := range n {
			q, err := plan.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			f, what := (*symmetry.Folded)(nil), ""
			if i%2 == 0 { // on every rank
				f = symmetry.Fold(q)
				what = mutant.Mutate(f.Plan, rng)
				if what == "" || f.Validate() != nil { // such as another collective, which has another symmetry
					continue
				}
				q = f.Unfold()
				same++
			} else {
				if what = mutant.Mutate(q, rng); what == "" || q.Validate(&plan.Capacity) != nil {
					continue
				}
				if f = symmetry.Fold(q); f == nil || f.Symmetry.Order() < order {
					broken++ // noticed
				}
				if f == nil {
					continue
				}
			}
			_, whole := verify.Check(q, verify.Options{Whole: true})
			_, folded := verify.CheckFolded(f, verify.Options{})
			if errors.Is(folded, verify.ErrTooLarge) && strings.Contains(folded.Error(), "pipelines") {
				continue // the quotient does not examine these
			}
			if verdict(whole) != verdict(folded) {
				t.Errorf("%s, %s: folded: %v\nwhole: %v", name, what, folded, whole)
			}
			if verdict(whole) == "wrong" {
				wrong++
			}
		}
	})
	t.Logf("%d changes of all ranks, %d that broke the symmetry, %d wrong plans", same, broken, wrong)
	if same < 100 || broken < 100 || wrong < 100 {
		t.Errorf("too few to show anything")
	}
}

// Unfold makes again what Fold left out.
func TestUnfoldRestoresThePlan(t *testing.T) {
	eachFold(t, foldShapes, func(name string, p *plan.Plan) {
		f := symmetry.Fold(p)
		q := f.Unfold()
		if err := q.Validate(&plan.Capacity); err != nil {
			t.Fatal(name, err)
		}
		for r := range p.GPUs {
			for b := range p.GPUs[r].ThreadBlocks {
				if want, got := moves(p.Program(r, b)), moves(q.Program(r, b)); want != got {
					t.Fatalf("%s: rank %d, thread block %d:\n%s\nunfolded:\n%s", name, r, b, want, got)
				}
			}
		}
	})
}

// moves prints what a program does, whatever the numbers of its tables.
func moves(steps []plan.Step) string {
	s := ""
	for i := range steps {
		st := &steps[i]
		s += fmt.Sprintln(st.Op.Name, st.Does, st.Channels, st.Op.Slice, st.Op.SemaphoreIDs, st.Op.BarrierID, st.Moves)
		s += moves(st.Body)
	}
	return s
}

// Chunks that always move together are examined as one, with and without a symmetry of ranks. What that says is what
// the check of every rank and chunk says, also of wrong plans.
func TestAlikeChunksAgree(t *testing.T) {
	n := 5
	if os.Getenv("GOCCL_FULL") != "" {
		n = 100
	}
	rng := rand.New(rand.NewPCG(3, 4))
	agree, wrong := 0, 0
	for _, p := range programs.All() {
		for _, o := range []programs.Options{{Ranks: 2, Instances: 1}, {Ranks: 5, Instances: 1},
			{Ranks: 8, Hosts: 2, Instances: 1}} {
			if p.Supports(o) != nil {
				continue
			}
			pl, err := p.Build(o)
			if err != nil {
				t.Fatal(err)
			}
			text := pl.Encode()
			for i := range n {
				q, err := plan.Decode(text)
				if err != nil {
					t.Fatal(err)
				}
				what := ""
				if i > 0 {
					what = mutant.Mutate(q, rng)
				}
				a, whole := verify.Check(q, verify.Options{Whole: true})
				b, alike := verify.Check(q, verify.Options{Alike: true})
				if verdict(whole) != verdict(alike) || whole == nil && a.EvenOnly != b.EvenOnly {
					t.Errorf("%s %+v, %s: folded: %v, %+v\nwhole: %v, %+v", p.Name, o, what, alike, b, whole, a)
				}
				if agree++; whole != nil {
					wrong++
				}
			}
		}
	}
	t.Logf("%d plans, %d wrong", agree, wrong)
}

// A plan whose check would take too much memory is refused before it takes it.
func TestCheckBoundsItsMemory(t *testing.T) {
	p, err := programs.Build("alltoall_direct", programs.Options{Ranks: 16, Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verify.Check(p, verify.Options{Whole: true}); err != nil {
		t.Fatal(err)
	}
	_, err = verify.Check(p, verify.Options{Whole: true, MaxBytes: 1 << 20})
	if !errors.Is(err, verify.ErrTooLarge) || !strings.Contains(err.Error(), "MiB of memory") {
		t.Errorf("error %v", err)
	}
}

// A folded plan encodes as the plan of all ranks does.
func TestFoldedEncoding(t *testing.T) {
	for _, p := range programs.All() {
		o := programs.Options{Ranks: 6, Hosts: 1, Instances: 2}
		if p.MultiHost {
			o.Hosts = 2
		}
		f, err := p.Fold(o)
		if err != nil {
			t.Fatal(p.Name, err)
		}
		if f == nil {
			continue
		}
		var parts []byte
		if err := f.Encode(func(part []byte) error { parts = append(parts, part...); return nil }); err != nil {
			t.Fatal(p.Name, err)
		}
		if whole := f.Unfold().Encode(); !bytes.Equal(parts, whole) {
			t.Errorf("%s: %d bytes in parts differ from %d of the whole plan", p.Name, len(parts), len(whole))
		}
		stop := errors.New("stop")
		if err := f.Encode(func([]byte) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("%s: %v, want the visitor's error", p.Name, err)
		}
	}
}
