package main

import (
	"context"
	"errors"
	"time"

	"github.com/goccl/goccl/internal/netns"
	"github.com/goccl/goccl/job/launch"
)

type runCommand struct {
	N       int           `short:"n" required:"" help:"Number of ranks."`
	Hosts   int           `placeholder:"N" help:"Make N hosts on this machine (network namespaces; needs root) and divide the ranks among them."`
	Grace   time.Duration `default:"1s" help:"How long the others may go on after one rank has failed (default ${default})."`
	Program []string      `arg:"" passthrough:"" help:"The program and its arguments; put -- before it."`
}

// Run starts the ranks and exits with the status of the first that failed.
func (c *runCommand) Run(ctx context.Context, s *streams) error {
	program := c.Program
	if len(program) > 0 && program[0] == "--" {
		program = program[1:]
	}
	return s.start(ctx, c.Hosts, launch.Options{N: c.N, Program: program, Grace: c.Grace})
}

// start starts ranks, on hosts of this machine if there are to be some. An exit status of a rank becomes the status of
// this program.
func (s *streams) start(ctx context.Context, hosts int, o launch.Options) error {
	if o.Stdout = s.out; o.Stderr == nil {
		o.Stderr = s.stderr
	}
	if hosts > 0 {
		w, err := netns.New(hosts)
		if err != nil {
			return err
		}
		defer w.Close()
		o.Hosts = launch.HostsOf(w)
	}
	err := launch.Run(ctx, o)
	var exit *launch.ExitError
	switch {
	case errors.As(err, &exit):
		return &exitError{exit.ExitCode(), err}
	case errors.Is(err, launch.ErrInvalid):
		return &exitError{2, err}
	}
	return err
}
