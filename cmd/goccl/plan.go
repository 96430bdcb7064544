package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/simulate"
	"github.com/goccl/goccl/plan/synth"
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

// readNamed reads a file. builtIn says that there is none, and that the name is one of what ships with goccl, if any.
func readNamed(name string, limit int64) (data []byte, builtIn bool, err error) {
	data, err = regular.Read(name, limit)
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, "/.") {
		return nil, true, nil
	}
	return data, false, err
}

// planSource names a plan: a file, or a built-in program and its shape.
type planSource struct {
	Plan string `arg:"" help:"A plan file, or the name of a built-in program (goccl plan list), which needs --ranks."`
	planShape
}

// planShape is the shape of a built-in program.
type planShape struct {
	Ranks     int    `short:"n" help:"Ranks, of a built-in program."`
	Hosts     int    `default:"1" help:"Hosts, of a built-in program (default ${default})."`
	Instances int    `help:"Copies of every thread block, of a built-in program."`
	InPlace   bool   `help:"Input and output in one memory, of a built-in program."`
	Root      int    `help:"Root of a broadcast or reduce, of a built-in program."`
	Op        string `help:"Operator that the plan's reductions have, of a built-in program; default: the caller's."`
}

func (s *planSource) load() (*plan.Plan, error) {
	data, builtIn, err := readNamed(s.Plan, int64(plan.Capacity.FileBytes))
	switch {
	case err != nil:
		return nil, err
	case !builtIn:
		p, err := plan.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Plan, err)
		}
		if s.Ranks != 0 && s.Ranks != len(p.GPUs) || s.Instances != 0 || s.InPlace || s.Root != 0 || s.Op != "" {
			return nil, &exitError{2, fmt.Errorf("%s is a plan of %d ranks: --ranks, --instances, --in-place, --root and --op "+
				"are for built-in programs", s.Plan, len(p.GPUs))}
		}
		s.Ranks = len(p.GPUs)
		return p, nil
	}
	p, err := s.build(s.Plan, false)
	if err != nil {
		return nil, err
	}
	return p.whole, nil
}

// build returns a built-in program. With fold it is folded if its many ranks do the same up to a renaming.
func (s *planShape) build(name string, fold bool) (*anyPlan, error) {
	prog, err := programs.Lookup(name)
	if err != nil {
		return nil, &exitError{2, err}
	}
	if s.Ranks < 2 {
		return nil, &exitError{2, fmt.Errorf("%s is a built-in program: give the number of ranks (--ranks N, at least 2)",
			name)}
	}
	o := programs.Options{Ranks: s.Ranks, Hosts: s.Hosts, Instances: s.Instances, InPlace: s.InPlace, Root: s.Root,
		ReduceOp: dsl.ReduceOp(s.Op)}
	if err := prog.Supports(o); err != nil {
		return nil, &exitError{2, err}
	}
	if fold && s.Ranks >= foldFrom {
		if f, err := prog.Fold(o); f != nil || err != nil {
			return &anyPlan{folded: f}, err
		}
	}
	p, err := prog.Build(o)
	return &anyPlan{whole: p}, err
}

type planBuild struct {
	Program string `arg:"" help:"The name of a built-in program (goccl plan list)."`
	planShape
	Out string `short:"o" placeholder:"FILE" help:"Where to write it. Default: standard output."`
}

// Run writes the plan. It writes no file that goccl plan check would refuse for its length.
func (c *planBuild) Run(s *streams) error {
	defer s.busy("building")()
	p, err := c.build(c.Program, true)
	if err != nil {
		return err
	}
	out := s.out
	var file *os.File
	write := func(part []byte) error {
		if c.Out != "" && file == nil {
			if file, err = os.Create(c.Out); err != nil {
				return err
			}
			out = file
		}
		_, err := out.Write(part)
		return err
	}
	if err := p.encode(write); err != nil {
		if file != nil {
			_ = file.Close()
		}
		return err
	}
	if file != nil {
		return file.Close()
	}
	return nil
}

type planList struct {
	JSON bool `name:"json" help:"As a JSON array."`
}

func (c *planList) Run(s *streams) error {
	type row struct {
		Name       string `json:"name"`
		Collective string `json:"collective"`
		Doc        string `json:"doc"`
	}
	var rows []row
	wide := 0
	for _, p := range programs.All() {
		first, _, _ := strings.Cut(p.Doc, "\n")
		of := string(p.Collective)
		if known, err := collective.ParseCollective(of); err == nil {
			of = known.String()
		}
		rows = append(rows, row{p.Name, of, first})
		wide = max(wide, len(p.Name))
	}
	if c.JSON {
		return s.writeJSON(rows)
	}
	var b bytes.Buffer
	for _, r := range rows {
		fmt.Fprintf(&b, "%-*s  %s\n", wide, r.Name, r.Collective)
		line := "   "
		for _, word := range strings.Fields(r.Doc) {
			if len(line)+1+len(word) > 100 {
				fmt.Fprintln(&b, line)
				line = "   "
			}
			line += " " + word
		}
		fmt.Fprintln(&b, line)
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
	done := s.busy("proving")
	defer done()
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
	done()
	if err != nil {
		return &exitError{1, err}
	}
	ranks := len(p.head().GPUs)
	fmt.Fprintf(s.out, "%s: right, for %s over %s\n", p.head().Name, p.head().Collective, printable.Count(ranks, "rank"))
	fmt.Fprintf(s.out, "  %d launches in a row, %s, %s, %v\n", r.Launches, printable.Count(r.Shapes, "message shape"),
		printable.Count(int(r.Steps), "step"), time.Since(start).Round(time.Millisecond))
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
	Machine string  `default:"h200" help:"A machine or topology that ships with goccl, or a file of one (default h200)."`
	Size    []int64 `type:"size" short:"b" default:"1M" placeholder:"SIZE" help:"Message sizes (default 1M), separated by commas; each is rounded down to what the plan takes."`
	Path    bool    `help:"Print the critical path."`
	Hook    float64 `name:"hook-us" placeholder:"US" help:"The caller raises hook k (k+1) times this after the launch."`
	Trust   bool    `help:"Do not prove the plan first."`
	SVG     string  `name:"svg" placeholder:"FILE" help:"Draw the last size."`
}

func (c *planSimulate) Run(s *streams) error {
	defer s.busy("proving and simulating")()
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
	foreign(s, p.head(), m)
	for i, n := range c.Size {
		r, err := p.simulate(m, n)
		if err != nil {
			return err
		}
		fmt.Fprintln(s.out, strings.TrimRight(r.Summary(), "\n"))
		if c.Path {
			fmt.Fprintln(s.out, strings.TrimRight(r.Critical(), "\n"))
		}
		if c.SVG != "" && i == len(c.Size)-1 {
			if err := draw(r, c.SVG); err != nil {
				return err
			}
		}
	}
	return nil
}

// foreign says when a plan was found for another machine than it is simulated on.
func foreign(s *streams, p *plan.Plan, m *simulate.Machine) {
	if own := synth.Topology(p); own != "" && own != m.Name {
		fmt.Fprintf(s.stderr, "goccl: this plan was found for %s, and the times are for %s; --machine takes topologies too\n",
			own, m.Name)
	}
}

// draw writes a picture of a run, or a page if the name of the file ends in .html.
func draw(r *simulate.Result, file string) error {
	return os.WriteFile(file, simulate.Render(r, simulate.RenderOptions{HTML: strings.HasSuffix(file, ".html")}), 0o644)
}

// machine returns the named machine, with the plan's number of ranks per host.
func (s *planShape) machine(name string) (*simulate.Machine, error) {
	m, err := machineModel(name)
	if err == nil && m.Fabric != nil && m.Fabric.Ranks() != s.Ranks {
		return nil, &exitError{2, fmt.Errorf("%s has %d GPUs, and the plan %d ranks", name, m.Fabric.Ranks(), s.Ranks)}
	}
	if err == nil && s.Hosts > 1 && s.Ranks/s.Hosts != m.RanksPerHost {
		m.RanksPerHost = s.Ranks / s.Hosts
		m.NICsPerHost = min(m.NICsPerHost, m.RanksPerHost)
	}
	return m, err
}

// baseMachine is the model of the thread blocks on topologies.
const baseMachine = "h200"

// machineModel reads a machine, or a topology whose thread blocks baseMachine models.
func machineModel(name string) (*simulate.Machine, error) {
	data, builtIn, err := readNamed(name, maxTextBytes)
	if builtIn {
		if slices.Contains(fabric.Examples(), name) {
			return onTopology(name)
		}
		m, err := simulate.NamedMachine(name)
		if err != nil {
			return nil, &exitError{2, fmt.Errorf("%w; or a topology: %s", err, strings.Join(fabric.Examples(), ", "))}
		}
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(data, &keys) == nil && (keys["nodes"] != nil || keys["host"] != nil || keys["gpus"] != nil) {
		return onTopology(name)
	}
	m, err := simulate.ParseMachine(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func onTopology(name string) (*simulate.Machine, error) {
	m, err := simulate.NamedMachine(baseMachine)
	if err != nil {
		return nil, err
	}
	if m.Fabric, err = topology(name, 1); err != nil {
		return nil, err
	}
	m.Name = m.Fabric.Name
	return m, nil
}
