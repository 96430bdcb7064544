package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/test/chaos"
)

type chaosCommand struct {
	Seed   uint64        `default:"1" help:"Draws victims and times (default ${default})."`
	Trials int           `short:"n" default:"1" help:"Trials of each fault in each phase (default ${default})."`
	Ranks  int           `default:"4" help:"Ranks of a job (default ${default})."`
	Jobs   int           `default:"1" help:"Trials at a time (default ${default}); more make times longer."`
	For    time.Duration `placeholder:"TIME" help:"Begin no trial after TIME, such as 5m."`
	Slow   float64       `default:"1" help:"Multiply the limits of times, for a busy machine (default ${default})."`
	Faults []string      `placeholder:"NAME" help:"Only these faults (see --list); mismatch is all that begin with it."`
	Phases []string      `placeholder:"NAME" help:"Only these phases (see --list)."`
	Device string        `enum:"host,cuda" default:"host" help:"host or cuda: rank r is on GPU r (default ${default})."`
	List   bool          `help:"Describe the faults and the phases."`
	JSON   string        `name:"json" placeholder:"FILE" help:"Write the results to FILE; - is standard output."`
	Rank   string        `hidden:"" help:"Be a rank of this trial."`
}

// Run performs trials; the exit status is 1 if one was not handled, or if a cell that was asked for was not tried.
func (c *chaosCommand) Run(ctx context.Context, s *streams) error {
	if c.Rank != "" {
		if status := chaos.Rank(c.Rank, os.Stdin); status != 0 {
			return &exitError{status, nil}
		}
		return nil
	}
	if c.List {
		chaos.List(s.out)
		return nil
	}
	if c.Trials < 1 || c.Ranks < 3 || c.Ranks > 30 {
		return &exitError{2, fmt.Errorf("%d trials of %d ranks: choose at least 1 trial, and 3 to 30 ranks",
			c.Trials, c.Ranks)}
	}
	if !(c.Slow >= 1) {
		return &exitError{2, fmt.Errorf("--slow %v: choose 1 or more", c.Slow)}
	}
	var out io.Writer = s.out
	if c.JSON == "-" {
		out = s.stderr // the results are alone on standard output
	}
	program, err := chaos.Program("chaos", "--rank")
	if err != nil {
		return err
	}
	o := chaos.Options{Seed: c.Seed, Trials: c.Trials, Ranks: c.Ranks, Faults: c.Faults, Phases: c.Phases,
		Jobs: c.Jobs, CUDA: c.Device == "cuda", Slow: c.Slow, Program: program, Out: out}
	if o.Save, err = c.saving(s); err != nil {
		return &exitError{2, err}
	}
	limited := ctx
	if c.For > 0 {
		var stop context.CancelFunc
		limited, stop = context.WithTimeout(ctx, c.For)
		defer stop()
	}
	res, err := chaos.Run(limited, o)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil // the end that was asked for
	}
	if res == nil {
		return &exitError{2, err}
	}
	handled, all := res.Handled()
	fmt.Fprintf(out, "%d of %d trials handled in %v\n", handled, all, time.Duration(res.Seconds*1e9).Round(time.Second))
	if res.Unjudged != "" {
		fmt.Fprintln(out, "not judged:", res.Unjudged)
	}
	for _, f := range res.Failures {
		fmt.Fprintln(out, "no success:", f)
	}
	if err == nil && !res.OK {
		return &exitError{1, nil}
	}
	return err
}

// saving checks that the results can be kept, and returns the function that does so. A regular file is replaced again
// and again; another target, such as a pipe, gets the final result only.
func (c *chaosCommand) saving(s *streams) (func(*chaos.Result, bool) error, error) {
	if c.JSON == "" {
		return nil, nil
	}
	whole, err := regular.Check(c.JSON)
	return func(res *chaos.Result, final bool) error {
		if !whole && !final {
			return nil
		}
		res.Command = commandLine()
		text, err := res.Encode()
		if err != nil {
			return err
		}
		return regular.Save(c.JSON, text, s.out)
	}, err
}
