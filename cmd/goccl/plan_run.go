package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/goccl/goccl/cmd/goccl/internal/perf"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/launch"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/transport/tcp"
)

type planRun struct {
	planSource
	Device    string        `enum:"auto,host,cuda" default:"auto" help:"auto, host or cuda. auto is cuda where every rank has a GPU."`
	Processes bool          `help:"A process per rank. Default: all ranks in this process. A launcher (mpirun, torchrun, srun) decides itself."`
	Size      []int64       `type:"size" short:"b" default:"1K,1M" placeholder:"SIZE" help:"Message sizes (default 1K and 1M), separated by commas; each is rounded down to what the plan takes."`
	Dtype     string        `short:"d" default:"float" help:"Element type (default ${default})."`
	Reduce    string        `default:"sum" help:"Operator, where the plan leaves it to the caller (default ${default})."`
	Times     int           `short:"i" default:"10" help:"Executions of each size (default ${default})."`
	Timeout   time.Duration `default:"30s" help:"Bound on every wait (default ${default})."`
	Trust     bool          `help:"Do not prove the plan first."`
	Graph     bool          `help:"On GPUs: time executions that are replayed from a graph."`
	JSON      string        `name:"json" placeholder:"FILE" help:"Add the times of a built-in program to FILE, for goccl plan fit."`
}

// Run executes the plan and checks the results. It exits with 3 if one is wrong.
func (c *planRun) Run(ctx context.Context, s *streams) error {
	p, err := c.load()
	if err != nil {
		return err
	}
	if _, err := programs.Lookup(c.Plan); c.JSON != "" && err != nil {
		return &exitError{2, fmt.Errorf("--json is for built-in programs, which goccl plan fit can build again: %w", err)}
	}
	env, err := bootstrap.FromEnv()
	launched := err == nil && env.WorldSize > 1
	if c.Processes && !launched {
		return c.start(ctx, s, len(p.GPUs))
	}
	o := planrun.Options{Plan: p, Timeout: c.Timeout, Trusted: c.Trust}
	if err := c.network(&o, launched); err != nil {
		return &exitError{2, err}
	}
	if o.Open, err = c.open(len(p.GPUs)); err != nil {
		return err
	}
	even := p.MovesChunks()
	if !c.Trust {
		r, err := executor.Check(p)
		var wrong *verify.Violation
		if errors.As(err, &wrong) && launched && env.Rank > 0 {
			return &exitError{1, fmt.Errorf("%s (rank 0 reports the whole counterexample)", wrong.Summary())}
		}
		if err != nil {
			return err
		}
		even = r.EvenOnly
	}
	if o.Cases, err = c.cases(p, even); err != nil {
		return &exitError{2, err}
	}
	kind := c.kind(len(p.GPUs))
	var times []planTime
	o.Report = func(k planrun.Case, took time.Duration) {
		us := float64(took) / 1e3
		if c.JSON != "" && us > 0 && k.Times > 1 {
			times = append(times, planTime{Program: c.Plan, Ranks: c.Ranks, Hosts: c.Hosts, Instances: c.Instances,
				InPlace: p.InPlace, Size: int64(k.Message),
				Micros: us, Device: kind, Graph: k.Replays > 0})
		}
		fmt.Fprintf(s.out, "%12d bytes  %-8v %-6v %10.1f us  %8.2f GB/s  right\n", k.Message, k.Type,
			planrun.Operator(p, k.Op), us, float64(k.Message)/1e3/us)
	}
	if err := c.execute(ctx, launched, env, o); err != nil || len(times) == 0 {
		return err
	}
	return appendTimes(c.JSON, times)
}

func (c *planRun) execute(ctx context.Context, launched bool, env bootstrap.Env, o planrun.Options) error {
	if !launched {
		return planrun.Threads(ctx, o)
	}
	boot, err := bootstrap.Join(ctx, env)
	if err != nil {
		return err
	}
	return errors.Join(planrun.Join(ctx, boot, o), boot.Close())
}

// kind selects host or cuda, for n ranks.
func (c *planRun) kind(n int) string {
	if c.Device != "auto" {
		return c.Device
	}
	if gpus, err := cuda.Count(); cuda.Available() == nil && err == nil && gpus >= n {
		return "cuda"
	}
	return "host"
}

// network sets the network between hosts: TCP. The hosts of one process are told apart, too.
func (c *planRun) network(o *planrun.Options, launched bool) error {
	n := len(o.Plan.GPUs)
	if c.Hosts < 1 || n%c.Hosts != 0 {
		return fmt.Errorf("%d ranks on %d hosts: --ranks must be a multiple of --hosts", n, c.Hosts)
	}
	if !launched && c.Hosts == 1 {
		return nil
	}
	cfg, err := setting.Read()
	o.Net = tcp.Configured(cfg, c.Timeout)
	if launched {
		return err
	}
	for r := range n {
		o.Hosts = append(o.Hosts, r/(n/c.Hosts))
	}
	return err
}

// start runs this command again, once for each rank; with --hosts, in a network namespace per host.
func (c *planRun) start(ctx context.Context, s *streams, n int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	hosts := c.Hosts
	if hosts == 1 {
		hosts = 0 // this one
	}
	return s.start(ctx, hosts, launch.Options{N: n, Program: append([]string{self}, os.Args[1:]...),
		Stderr: perf.NewErrorWriter(ctx, s.stderr)})
}

func (c *planRun) open(n int) (func(int) (device.Device, error), error) {
	kind, err := device.Host, error(nil)
	if c.kind(n) != "host" {
		kind, err = device.CUDA, cuda.Available()
	}
	return func(r int) (device.Device, error) { return perf.OpenDevice(kind, r) }, err
}

// rounds is the number of runs on new data before a plan is timed.
const rounds = 2

func (c *planRun) cases(p *plan.Plan, even bool) ([]planrun.Case, error) {
	t, err := datatype.ParseType(c.Dtype)
	if err != nil {
		return nil, err
	}
	op, err := datatype.ParseOp(strings.ToLower(c.Reduce))
	if err != nil {
		return nil, err
	}
	op = planrun.Operator(p, op)
	var out []planrun.Case
	for _, n := range c.Size {
		m := uint64(n)
		unit := uint64(len(p.GPUs)) * uint64(t.Size())
		if even { // a multiple of the plan's alignment, and so of the element
			unit = p.EvenUnit()
		}
		if m %= unit; m == uint64(n) && m > 0 {
			return nil, fmt.Errorf("-b %d: this plan takes multiples of %d bytes of %v", n, unit, t)
		}
		m = uint64(n) - m
		if _, err := p.NewLayout(m); err != nil {
			return nil, err
		}
		times := max(1, c.Times)
		if p.InPlace {
			out = append(out, planrun.Case{Message: m, Type: t, Op: op, InPlace: true, Seed: 1, Fresh: rounds})
		}
		k := planrun.Case{Message: m, Type: t, Op: op, Times: times, Seed: 2, Fresh: rounds}
		if c.Graph && c.kind(len(p.GPUs)) == "cuda" {
			k.Replays = 20
		}
		out = append(out, k)
	}
	return out, nil
}
