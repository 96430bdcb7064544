package perf

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/nvlink"
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

// plans measures plans on one rank.
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
