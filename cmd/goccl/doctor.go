package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/goccl/goccl/cmd/goccl/internal/doctor"
	"github.com/goccl/goccl/cmd/goccl/internal/links"
)

type doctorCommand struct {
	JSON    bool          `name:"json" help:"As JSON: a list of findings."`
	PID     int           `name:"pid" placeholder:"PID" help:"Examine a running process instead: its libraries, versions, limits and variables."`
	Pairs   []int         `hidden:"" help:"Measure the pairs of GPUs from a, b on, of n, and write lines of JSON: doctor starts itself so."`
	Timeout time.Duration `default:"60s" help:"Give up questions that a sick driver does not answer (default ${default})."`
}

// Run prints the findings; the exit status is 1 if one of them is a failure.
func (c *doctorCommand) Run(ctx context.Context, s *streams) error {
	if c.Timeout <= 0 {
		return &exitError{2, fmt.Errorf("--timeout %v: use a positive time, such as 60s", c.Timeout)}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if len(c.Pairs) == 3 {
		slog.SetDefault(slog.New(slog.DiscardHandler))
		return links.Serve(s.out, c.Pairs[0], c.Pairs[1], c.Pairs[2], func(a, b int) links.Verdict {
			return links.Measure(ctx, a, b)
		})
	}
	var findings []doctor.Finding
	if c.PID != 0 {
		findings = doctor.CheckProcess(ctx, "/", c.PID)
	} else {
		findings = doctor.Check(ctx)
	}
	write := func() error { return doctor.Write(s.out, findings, colored(s)) }
	if c.JSON {
		write = func() error { return s.writeJSON(findings) }
	}
	if err := write(); err != nil {
		return err
	}
	if doctor.Worst(findings) == doctor.Fail {
		return &exitError{1, nil}
	}
	return nil
}
