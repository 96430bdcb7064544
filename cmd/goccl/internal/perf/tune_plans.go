package perf

import (
	"context"
	"errors"
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

// planned lists the collectives for which tune searches plans.
var planned = []collective.Collective{collective.AllReduce, collective.AllGather, collective.ReduceScatter,
	collective.Broadcast, collective.AllToAll}

// TunePlans searches plans, measures them beside goccl's own choice, and writes into the folder o.Plans those that are
// faster, each with the range of sizes where it is. Rank 0 searches and writes.
func TunePlans(ctx context.Context, o TuneOptions, search PlanSearch) error {
	o.outputs()
	if err := writable(o.Rows); err != nil {
		return err
	}
	kinds, err := o.plannedKinds()
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
	layout := o.Layout
	if layout == LayoutAuto && kind == device.Host && o.Hosts == 0 {
		layout = LayoutThreads
	}
	return o.everyRank(ctx, kind, layout, func(ctx context.Context, boot bootstrap.Bootstrap, local, localSize int,
		layout string) error {
		return o.planRank(ctx, kinds, kind, boot, local, localSize, layout, search)
	})
}

// plannedKinds are the measured kinds; by default all that plans are searched for.
func (o *TuneOptions) plannedKinds() ([]Kind, error) {
	var kinds []Kind
	for _, c := range planned {
		kinds = append(kinds, Kind{Collective: c})
	}
	if len(o.Collectives) == 0 {
		return kinds, nil
	}
	var chosen []Kind
	for _, name := range o.Collectives {
		k, err := ParseKind(name)
		if err != nil {
			return nil, invalid("%w", err)
		}
		found := false
		for _, p := range kinds {
			found = found || p == k
		}
		if !found {
			return nil, invalid("%v: plans are searched for %v", k, kinds)
		}
		chosen = append(chosen, k)
	}
	return chosen, nil
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

// planRank runs one rank. It closes boot.
func (o *TuneOptions) planRank(ctx context.Context, kinds []Kind, kind device.Kind, boot bootstrap.Bootstrap,
	local, localSize int, layout string, search PlanSearch) (err error) {
	defer func() { err = errors.Join(err, boot.Close()) }()
	r, closer, err := rankOf(boot, kind, local, localSize, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer()) }()
	lead := boot.Rank() == 0
	r.Crowded = crowded(layout == LayoutProcesses, kind, localSize)
	printf := func(string, ...any) {}
	if lead {
		printf = func(format string, args ...any) { _, _ = fmt.Fprintf(o.Stdout, format, args...) }
		r.Reporter = &tuneReporter{w: o.Stdout, progress: NewProgress(o.Stderr)}
	}
	n := boot.WorldSize()
	printf("# plans beside goccl's own choice: %s, %d ranks as %s\n# %12s %11s  fastest\n", r.Device.Name(), n, layout,
		"size (B)", "time (us)")
	measured := map[string][]Row{}
	for _, k := range kinds {
		var list []*plan.Plan
		if lead {
			if list, err = o.searchPlans(k, n, hostsOf(boot), search); err != nil {
				return err
			}
		}
		if list, err = fromLead(ctx, boot, list); err != nil {
			return err
		}
		libraries := make([]*planLibrary, len(list))
		r.Libraries = []Library{&ours{kind: k, timeout: o.Timeout}}
		for i, p := range list {
			libraries[i] = &planLibrary{ours: ours{algo: p.Name, kind: k, timeout: o.Timeout}, plan: p}
			r.Libraries = append(r.Libraries, libraries[i])
		}
		score := planScore{}
		for _, mode := range o.Modes {
			printf("# %v %s\n", k, mode)
			rows, err := Measure(ctx, o.planConfig(k, mode), r)
			if err != nil {
				return err
			}
			if s := Summarize(rows); !s.OK() {
				return fmt.Errorf("tune: %v: %d elements wrong, %d bytes changed outside, %d impossible times: no plan is written",
					k, s.Wrong, s.Stray, s.Refused)
			}
			measured[fmt.Sprintf("%v %s", k, mode)] = rows
			score.add(rows, libraries)
		}
		if lead {
			if err := o.writePlans(k, n, libraries, score.winners(), printf); err != nil {
				return err
			}
		}
	}
	if !lead {
		return nil
	}
	return writeJSON(o.Rows, measured, o.files)
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
	if boot.Rank() == 0 {
		for _, p := range list {
			if _, err := boot.AllGather(ctx, p.Encode()); err != nil {
				return nil, err
			}
		}
		_, err := boot.AllGather(ctx, nil)
		return list, err
	}
	for {
		all, err := boot.AllGather(ctx, nil)
		if err != nil || len(all[0]) == 0 {
			return list, err
		}
		p, err := plan.Decode(all[0])
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
}
