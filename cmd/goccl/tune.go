package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/cmd/goccl/internal/fabrics"
	"github.com/goccl/goccl/cmd/goccl/internal/perf"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/job/topo"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/synth"
	"github.com/goccl/goccl/plan/verify"
)

type tuneCommand struct {
	perf.TuneOptions
	Topo    string `placeholder:"FILE" help:"With --plans: the topology, as for goccl synth (default: this machine)."`
	Machine string `default:"h200" help:"With --plans: the model of the thread blocks, as for goccl synth (default ${default})."`
}

func (c *tuneCommand) Run(ctx context.Context, s *streams) error {
	if c.Cycles < 1 || c.Factor <= 1 || c.Timeout <= 0 {
		return &exitError{2, errors.New("--cycles is at least 1, --factor above 1, and --timeout a positive time")}
	}
	if c.Out == "" && c.Plans == "" {
		return &exitError{2, errors.New("tune writes either a table, --out FILE, or plans, --plans FOLDER: name one")}
	}
	s.launch(&c.Launch)
	err := c.tune(ctx)
	if errors.Is(err, perf.ErrInvalid) {
		return &exitError{2, err}
	}
	return err
}

func (c *tuneCommand) tune(ctx context.Context) error {
	if c.Plans == "" {
		if c.Topo != "" {
			return &exitError{2, errors.New("--topo is for --plans: a table is measured on the machine itself")}
		}
		return perf.Tune(ctx, c.TuneOptions)
	}
	search, err := c.planSearch(ctx)
	if err != nil {
		return err
	}
	return perf.TunePlans(ctx, c.TuneOptions, search)
}

// plansPerSize is how many plans are measured of those that are found for a size.
const plansPerSize = 2

// planSearch returns a search on the topology of the command.
func (c *tuneCommand) planSearch(ctx context.Context) (perf.PlanSearch, error) {
	m, err := machineModel(c.Machine)
	if err != nil {
		return nil, err
	}
	return func(what collective.Collective, ranks, hosts int, size int64) ([]*plan.Plan, error) {
		of, err := planCollective(what.String())
		if err != nil {
			return nil, err
		}
		g, err := c.graph(ctx, hosts)
		if err != nil {
			return nil, err
		}
		if g.Ranks() != ranks || g.Hosts() != hosts {
			return nil, fmt.Errorf("%s has %d GPUs on %d hosts, and here are %d ranks on %d: name a topology with --topo",
				g.Name, g.Ranks(), g.Hosts(), ranks, hosts)
		}
		r, err := synth.Run(synth.Options{Graph: g, Collective: of, Size: max(size, int64(16*ranks)), Machine: m})
		if err != nil {
			return nil, err
		}
		var list []*plan.Plan
		for i := 0; i < len(r.Candidates) && len(list) < plansPerSize && r.Candidates[i].Err == nil; i++ {
			p, err := r.Candidates[i].Prove()
			if errors.As(err, new(*verify.Violation)) {
				continue
			}
			if err != nil {
				return nil, err
			}
			list = append(list, p)
		}
		return list, nil
	}, nil
}

// graph is the topology of --topo, or of this machine.
func (c *tuneCommand) graph(ctx context.Context, hosts int) (*fabric.Graph, error) {
	if c.Topo != "" {
		return topology(c.Topo, hosts)
	}
	m, err := topo.Detect(ctx)
	if err != nil {
		return nil, err
	}
	if len(m.GPUs) == 0 {
		return nil, errors.New("this machine has no GPUs: name a topology with --topo")
	}
	return fabrics.OfMachine(m, hosts)
}
