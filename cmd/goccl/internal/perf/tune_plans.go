package perf

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
)

// PlanSearch returns proven plans of a collective over the ranks of so many hosts that promise to be fast for messages
// of size bytes.
type PlanSearch func(c collective.Collective, ranks, hosts int, size int64) ([]*plan.Plan, error)

// searchFactor is from one size for which plans are searched to the next.
const searchFactor = 32

// planned lists the kinds for which tune searches plans.
var planned = []Kind{{Collective: collective.AllReduce}, {Collective: collective.AllGather},
	{Collective: collective.ReduceScatter}, {Collective: collective.Broadcast}, {Collective: collective.AllToAll}}

// TunePlans searches plans, measures them beside goccl's own choice, and writes into the folder o.Plans those that are
// faster, each with the range of sizes where it is. Rank 0 searches and writes.
func TunePlans(ctx context.Context, o TuneOptions, search PlanSearch) error {
	o.outputs(o.Out, o.Rows)
	if err := writable(o.Rows); err != nil {
		return err
	}
	kinds, err := o.kinds(planned, func(k Kind) error { return invalid("%v: plans are searched for %v", k, planned) })
	if err != nil {
		return err
	}
	if dir := setting.Lenient().PlanDir; dir != "" {
		return invalid("GOCCL_PLAN_DIR is %s: unset it; plans are measured beside what goccl runs without them", dir)
	}
	kind, err := ParseDevice(o.Device)
	if err != nil {
		return err
	}
	if o.Modes, err = planModes(o.Modes, kind); err != nil {
		return err
	}
	c := o.planConfig(kinds[0], o.Modes[0])
	if err := c.normalize(max(2, o.Ranks)); err != nil {
		return err
	}
	return o.everyRank(ctx, kind, func(ctx context.Context, t *tuning) error { return t.plans(ctx, kinds, search) })
}

// planModes are the modes to measure. The host device has no graphs.
func planModes(modes []string, kind device.Kind) ([]string, error) {
	if kind != device.CUDA {
		for _, m := range modes {
			if m != nvlink.ModeEager {
				return nil, invalid("--mode %s: the %v device has %s only", m, kind, nvlink.ModeEager)
			}
		}
		return []string{nvlink.ModeEager}, nil
	}
	if len(modes) == 0 {
		return []string{nvlink.ModeGraph, nvlink.ModeEager}, nil
	}
	_, err := (&TuneOptions{Modes: modes}).sweeps(nil)
	return modes, err
}

// planConfig measures in place too: a plan that is written for separate buffers then needs copies.
func (o *TuneOptions) planConfig(k Kind, mode string) Config {
	c := o.config(sweep{kind: k, mode: mode})
	c.Prune, c.Check, c.InPlace = 0, true, k.HasInPlace()
	c.Types = []datatype.Type{datatype.Float32}
	return c
}

func (t *tuning) plans(ctx context.Context, kinds []Kind, search PlanSearch) error {
	n := t.boot.WorldSize()
	t.head("plans beside goccl's own choice: %s, %d ranks as %s", t.on.Device.Name(), n, t.layout)
	for _, k := range kinds {
		var list []*plan.Plan
		var err error
		if t.leads() {
			if list, err = t.searchPlans(k, n, hostsOf(t.boot), search); err != nil {
				return err
			}
		}
		if list, err = fromLead(ctx, t.boot, list); err != nil {
			return err
		}
		plans := make([]*planLibrary, len(list))
		libraries := []Library{&ours{kind: k, timeout: t.Timeout}}
		for i, p := range list {
			plans[i] = &planLibrary{ours: ours{algo: p.Name, kind: k, timeout: t.Timeout}, plan: p}
			libraries = append(libraries, plans[i])
		}
		score := planScore{}
		for _, mode := range t.Modes {
			rows, err := t.measure(ctx, fmt.Sprintf("%v %s", k, mode), "plan", t.planConfig(k, mode), libraries)
			if err != nil {
				return err
			}
			score.add(rows, plans)
		}
		if t.leads() {
			if err := t.writePlans(k, n, plans, score.winners(), t.printf); err != nil {
				return err
			}
		}
	}
	return t.save(nil)
}

// searchPlans collects the plans for several sizes, each once.
func (o *TuneOptions) searchPlans(k Kind, ranks, hosts int, search PlanSearch) ([]*plan.Plan, error) {
	var list []*plan.Plan
	seen := map[string]bool{}
	for size := max(o.MinBytes, 1); size <= o.MaxBytes; size *= searchFactor {
		found, err := search(k.Collective, ranks, hosts, size)
		if err != nil {
			return nil, fmt.Errorf("tune: plans of %v: %w", k, err)
		}
		for _, p := range found {
			data := p.Encode()
			if seen[string(data)] || len(data) > bootstrap.MaxMessage {
				continue
			}
			seen[string(data)] = true
			// GOCCL_ALGO, which has commas between names, selects the plan.
			p.Name = fmt.Sprintf("%s_%d_%d", strings.ReplaceAll(p.Name, ",", ""), size, len(list))
			list = append(list, p)
		}
		if size > math.MaxInt64/searchFactor {
			break
		}
	}
	return list, nil
}

// fromLead gives every rank the plans of rank 0.
func fromLead(ctx context.Context, boot bootstrap.Bootstrap, list []*plan.Plan) ([]*plan.Plan, error) {
	for i := 0; ; i++ {
		var mine []byte
		if boot.Rank() == 0 && i < len(list) {
			mine = list[i].Encode()
		}
		all, err := boot.AllGather(ctx, mine)
		if err != nil || len(all[0]) == 0 {
			return list, err
		}
		if boot.Rank() == 0 {
			continue
		}
		p, err := plan.Decode(all[0])
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
}

// planLibrary implements Library with goccl and one registered plan, which runs where it accepts the request.
type planLibrary struct {
	ours
	plan      *plan.Plan
	algorithm collective.Algorithm // of the last Open
}

func (l *planLibrary) Name() string { return l.plan.Name }

func (l *planLibrary) Open(ctx context.Context, peers Peers, dev device.Device) (Communicator, error) {
	c, err := l.ours.Open(ctx, peers, dev)
	if err != nil {
		return nil, err
	}
	comm := c.(*goccl.Comm)
	if err := comm.RegisterPlan(ctx, l.plan); err != nil {
		_ = comm.Close()
		return nil, err
	}
	l.algorithm = comm.Algorithms()[0]
	return comm, nil
}

// ran reports whether the plan ran a row. Where it does not accept a message, goccl's own choice runs.
func (l *planLibrary) ran(row Row) bool {
	least, most := l.algorithm.MessageRange()
	return uint64(row.Size) >= least && uint64(row.Size) <= most && l.algorithm.Accepts(&collective.Request{
		Collective: l.kind.Collective, Count: row.Count, Type: datatype.Float32, Op: datatype.Sum}) == nil
}

// planScore collects the gains of plans by size, in the order of the sizes.
type planScore struct {
	sizes []int64
	// By index of the plan: goccl's time over the plan's, where the plan did worst: by mode, and in place or not.
	gains []map[int]float64
}

func (s *planScore) at(size int64) int {
	if i := slices.Index(s.sizes, size); i >= 0 {
		return i
	}
	s.sizes, s.gains = append(s.sizes, size), append(s.gains, map[int]float64{})
	return len(s.sizes) - 1
}

func (s *planScore) add(rows []Row, plans []*planLibrary) {
	type point struct {
		size    int64
		inPlace bool
	}
	base := map[point]float64{}
	index := map[string]int{}
	for i, l := range plans {
		index[l.Name()] = i
	}
	for _, r := range rows {
		i, isPlan := index[r.Library]
		at := s.at(r.Size)
		if !isPlan {
			base[point{r.Size, r.InPlace}] = r.Time
			continue
		}
		own, ok := base[point{r.Size, r.InPlace}] // goccl's own row comes first
		if !ok || r.Time <= 0 || !plans[i].ran(r) {
			continue
		}
		if least, again := s.gains[at][i]; !again || own/r.Time < least {
			s.gains[at][i] = own / r.Time
		}
	}
}

// planRange is a range of message sizes, both ends included, where a plan wins.
type planRange struct {
	plan     int
	from, to int64
	gain     float64 // the least
}

// winners lists the ranges in which a plan is faster than goccl's own choice at every measured size, in every mode, by
// more than the noise of a measurement. A plan stays until another one is faster by more than the noise.
func (s *planScore) winners() []planRange {
	var out []planRange
	last := -1 // plan of the previous size
	for i, size := range s.sizes {
		best, gain := -1, keepFactor
		for p, g := range s.gains[i] {
			if g > gain || g == gain && p < best {
				best, gain = p, g
			}
		}
		if g, ok := s.gains[i][last]; ok && best >= 0 && g > keepFactor && g*keepFactor >= gain {
			best, gain = last, g
		}
		switch {
		case best < 0:
		case best == last:
			r := &out[len(out)-1]
			r.to, r.gain = size, min(r.gain, gain)
		default:
			out = append(out, planRange{best, size, size, gain})
		}
		last = best
	}
	return out
}

// writePlans replaces the plans of a collective that an earlier run wrote into the folder.
func (o *TuneOptions) writePlans(k Kind, ranks int, list []*planLibrary, won []planRange,
	printf func(string, ...any)) error {
	prefix := fmt.Sprintf("tuned_%v_%d_ranks_", k, ranks)
	old, err := filepath.Glob(filepath.Join(o.Plans, prefix+"*.json"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("tune: remove the plan of an earlier run: %w", err)
		}
	}
	if len(won) == 0 {
		printf("# %v: none of %d plans is faster than goccl's own choice\n", k, len(list))
		return nil
	}
	if err := os.MkdirAll(o.Plans, 0o755); err != nil {
		return fmt.Errorf("tune: make the folder of plans: %w", err)
	}
	for _, w := range won {
		p := *list[w.plan].plan
		p.Name = fmt.Sprintf("%s%d_to_%d", prefix, w.from, w.to)
		p.MinSize, p.MaxSize = uint64(w.from), uint64(w.to)
		path := filepath.Join(o.Plans, p.Name+".json")
		if err := regular.Save(path, p.Encode(), o.Stdout); err != nil {
			return err
		}
		printf("# %v of %d to %d bytes: %s, at least %.2f times as fast; written to %s\n", k, w.from, w.to,
			list[w.plan].plan.Name, w.gain, path)
	}
	return nil
}
