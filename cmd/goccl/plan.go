package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/goccl/goccl/dsl"
	"github.com/goccl/goccl/dsl/programs"
	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/simulate"
)

// planCommand groups the commands for execution plans. docs/plan-format.md defines the format, docs/dsl.md explains how
// to write one.
type planCommand struct {
	Show     planShow     `cmd:"" help:"Print a plan, or draw a run of it."`
	Check    planCheck    `cmd:"" help:"Prove a plan right, or show how it goes wrong."`
	Run      planRun      `cmd:"" help:"Execute a plan and check every byte of the results."`
	Simulate planSimulate `cmd:"" help:"Predict what a plan takes on a modelled machine."`
	Fit      planFit      `cmd:"" help:"Fit a machine to times that plan run wrote."`
	Build    planBuild    `cmd:"" help:"Write a built-in program as a plan."`
	List     planList     `cmd:"" help:"List the built-in programs."`
}

// maxTextBytes bounds files that people write: machines, times, topologies.
const maxTextBytes = 64 << 20

// planSource names a plan: a file, or a built-in program and its shape.
type planSource struct {
	Plan      string `arg:"" help:"A plan file, or the name of a built-in program (goccl plan list), which needs --ranks."`
	Ranks     int    `short:"n" help:"Ranks, of a built-in program."`
	Hosts     int    `default:"1" help:"Hosts, of a built-in program (default ${default})."`
	Instances int    `help:"Copies of every thread block, of a built-in program."`
	InPlace   bool   `help:"Input and output in one memory, of a built-in program."`
	Root      int    `help:"Root of a broadcast or reduce, of a built-in program."`
	Op        string `help:"Operator that the plan's reductions have, of a built-in program; default: the caller's."`
}

func (s *planSource) load() (*plan.Plan, error) {
	data, err := regular.Read(s.Plan, int64(plan.Capacity.FileBytes))
	switch {
	case err == nil:
		p, err := plan.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Plan, err)
		}
		return p, nil
	case !errors.Is(err, os.ErrNotExist) || strings.ContainsAny(s.Plan, "/."):
		return nil, err
	}
	return s.build()
}

func (s *planSource) build() (*plan.Plan, error) {
	prog, err := programs.Lookup(s.Plan)
	if err != nil {
		return nil, &exitError{2, err}
	}
	if s.Ranks < 2 {
		return nil, &exitError{2, fmt.Errorf("%s is a built-in program: give the number of ranks (--ranks N, at least 2)",
			s.Plan)}
	}
	o := s.options()
	if err := prog.Supports(o); err != nil {
		return nil, &exitError{2, err}
	}
	return prog.Build(o)
}

func (s *planSource) options() programs.Options {
	return programs.Options{Ranks: s.Ranks, Hosts: s.Hosts, Instances: s.Instances, InPlace: s.InPlace, Root: s.Root,
		ReduceOp: dsl.ReduceOp(s.Op)}
}

type planBuild struct {
	planSource
	Out string `short:"o" placeholder:"FILE" help:"Where to write it. Default: standard output."`
}

// Run writes the plan.
func (c *planBuild) Run(s *streams) error {
	p, err := c.build()
	if err != nil {
		return err
	}
	if c.Out != "" {
		return os.WriteFile(c.Out, p.Encode(), 0o644)
	}
	_, err = s.out.Write(p.Encode())
	return err
}

type planList struct{}

// Run lists the programs, each with the first line of its description.
func (c *planList) Run(s *streams) error {
	var b bytes.Buffer
	for _, p := range programs.All() {
		first, _, _ := strings.Cut(p.Doc, "\n")
		fmt.Fprintf(&b, "%-24s %-14s %s\n", p.Name, p.Collective, first)
	}
	_, err := s.out.Write(b.Bytes())
	return err
}

type planCheck struct {
	planSource
	Portable bool `help:"Also keep the limits of MSCCL++'s executor."`
}

// Run verifies a plan. For a wrong plan it prints the counterexample and exits with 1.
func (c *planCheck) Run(s *streams) error {
	start := time.Now()
	p, err := c.any()
	if err != nil {
		return err
	}
	if c.Portable {
		if err := p.head().Validate(&plan.Portable); err != nil {
			return err
		}
	}
	r, err := p.check()
	if err != nil {
		return &exitError{1, err}
	}
	ranks := len(p.head().GPUs)
	fmt.Fprintf(s.out, "%s: right, for %s over %d ranks\n", p.head().Name, p.head().Collective, ranks)
	fmt.Fprintf(s.out, "  %d launches in a row, %d message shapes, %d steps, %v\n", r.Launches, r.Shapes, r.Steps,
		time.Since(start).Round(time.Millisecond))
	if r.Examined < ranks {
		fmt.Fprintf(s.out, "  by symmetry: %d of the ranks stand for all\n", r.Examined)
	}
	if r.EvenOnly {
		fmt.Fprintln(s.out, "  only for messages that divide into equal chunks")
	}
	return nil
}

type planSimulate struct {
	planSource
	Machine string  `default:"h200" help:"A machine that ships with goccl, or a file of one."`
	Size    []size  `short:"b" default:"1M" placeholder:"SIZE" help:"Message sizes (default 1M), separated by commas."`
	Path    bool    `help:"Print the critical path."`
	Hook    float64 `name:"hook-us" placeholder:"US" help:"The caller raises hook k (k+1) times this after the launch."`
	Trust   bool    `help:"Do not prove the plan first."`
	SVG     string  `name:"svg" placeholder:"FILE" help:"Draw the last size."`
}

// Run predicts the time of a plan.
func (c *planSimulate) Run(s *streams) error {
	p, err := c.any()
	if err != nil {
		return err
	}
	m, err := c.machine(c.Machine)
	if err != nil {
		return err
	}
	if c.Hook != 0 {
		m.Hook = c.Hook
	}
	if !c.Trust {
		if _, err := p.check(); err != nil {
			return &exitError{1, fmt.Errorf("%w\nto simulate it nevertheless: --trust", err)}
		}
	}
	for i, n := range c.Size {
		r, err := p.simulate(m, int64(n))
		if err != nil {
			return err
		}
		fmt.Fprintln(s.out, strings.TrimRight(r.Summary(), "\n"))
		if c.Path {
			fmt.Fprintln(s.out, strings.TrimRight(r.Critical(), "\n"))
		}
		if c.SVG != "" && i == len(c.Size)-1 {
			if err := os.WriteFile(c.SVG, simulate.Render(r, simulate.RenderOptions{HTML: strings.HasSuffix(c.SVG, ".html")}),
				0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// machine returns the named machine. Its hosts have as many ranks as those of the built-in program.
func (s *planSource) machine(name string) (*simulate.Machine, error) {
	m, err := machineModel(name)
	if err == nil && s.Hosts > 1 && s.Ranks/s.Hosts != m.RanksPerHost {
		m.RanksPerHost = s.Ranks / s.Hosts
		m.NICsPerHost = min(m.NICsPerHost, m.RanksPerHost)
	}
	return m, err
}

func machineModel(name string) (*simulate.Machine, error) {
	data, err := regular.Read(name, maxTextBytes)
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, "/.") {
		m, err := simulate.NamedMachine(name)
		if err != nil {
			return nil, &exitError{2, err}
		}
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := simulate.ParseMachine(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}
