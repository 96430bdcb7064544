package main

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	Collective []string `arg:"" optional:"" help:"Which to tune; default: all that have algorithms to choose from."`
	Out        string   `xor:"result" placeholder:"FILE" help:"Write the table here; - is standard output, and what is printed goes to standard error. GOCCL_TUNING=FILE uses it."`
	Plans      string   `xor:"result" placeholder:"FOLDER" help:"Search plans for the topology instead, and write those here that are faster than what goccl runs without them. GOCCL_PLAN_DIR=FOLDER uses them."`
	Topo       string   `placeholder:"FILE" help:"With --plans: the topology, as for goccl synth (default: this machine)."`
	Machine    string   `default:"h200" help:"With --plans: the model of the thread blocks, as for goccl synth (default ${default})."`

	Ranks     count `short:"n" placeholder:"N" help:"Ranks to start here. Default: one per GPU. A launcher (mpirun, torchrun, srun) decides itself."`
	Processes bool  `xor:"layout" help:"A process per rank (default)."`
	Threads   bool  `xor:"layout" help:"All ranks in this process."`

	Hosts  int    `placeholder:"N" help:"Tune across hosts: make N network namespaces of this machine, and divide the ranks among them. Under a launcher with ranks on several hosts, tune does so by itself."`
	Device string `default:"auto" help:"auto, cuda or host (default ${default}). The host device has choices across hosts only."`

	MinBytes size     `short:"b" default:"1K" placeholder:"SIZE" help:"Smallest size (default 1K). K, M and G are understood."`
	MaxBytes size     `short:"e" default:"64M" placeholder:"SIZE" help:"Largest size (default 64M)."`
	Factor   float64  `short:"f" default:"2" help:"From one size to the next (default ${default})."`
	Cycles   int      `short:"c" default:"5" help:"Timed batches (default ${default})."`
	Mode     []string `help:"eager, graph, or both (default). A table for one of them is used for the other too."`
	Width    []int    `help:"Element widths in bytes of reductions: some of 1,2,4,8 (default: all). Others use the nearest one."`
	Check    bool     `help:"Check every element of every result."`

	JSON    string        `name:"json" placeholder:"FILE" help:"Also write every time that was measured."`
	Timeout time.Duration `default:"60s" help:"Bound on every wait (default ${default})."`
}

// Run measures and writes the table.
func (c *tuneCommand) Run(ctx context.Context, s *streams) error {
	if c.Cycles < 1 || c.Factor <= 1 || c.Timeout <= 0 {
		return &exitError{2, errors.New("--cycles is at least 1, --factor above 1, and --timeout a positive time")}
	}
	if c.Out == "" && c.Plans == "" {
		return &exitError{2, errors.New("tune writes either a table, --out FILE, or plans, --plans FOLDER: name one")}
	}
	o := perf.TuneOptions{Launch: s.launch(c.Ranks, c.Hosts, c.Device, c.Processes, c.Threads),
		Collectives: c.Collective, Modes: c.Mode, Widths: c.Width,
		MinBytes: int64(c.MinBytes), MaxBytes: int64(c.MaxBytes), Factor: c.Factor,
		Cycles: c.Cycles, Check: c.Check, Timeout: c.Timeout, Out: c.Out, Plans: c.Plans, Rows: c.JSON}
	err := c.tune(ctx, o)
	if errors.Is(err, perf.ErrInvalid) {
		return &exitError{2, err}
	}
	return err
}

func (c *tuneCommand) tune(ctx context.Context, o perf.TuneOptions) error {
	if c.Plans == "" {
		if c.Topo != "" {
			return &exitError{2, errors.New("--topo is for --plans: a table is measured on the machine itself")}
		}
		return perf.Tune(ctx, o)
	}
	search, err := c.planSearch(ctx)
	if err != nil {
		return err
	}
	return perf.TunePlans(ctx, o, search)
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
