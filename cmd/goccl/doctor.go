package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/goccl/goccl/cmd/goccl/internal/doctor"
)

type doctorCommand struct {
	JSON    bool          `name:"json" help:"As JSON: a list of findings."`
	Timeout time.Duration `default:"20s" help:"Give up questions that a sick driver does not answer (default ${default})."`
}

// Run prints the findings; the exit status is 1 if one of them is a failure.
func (c *doctorCommand) Run(ctx context.Context, s *streams) error {
	if c.Timeout <= 0 {
		return &exitError{2, fmt.Errorf("--timeout %v: use a positive time, such as 20s", c.Timeout)}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	findings := doctor.Check(ctx)
	if c.JSON {
		b, err := json.MarshalIndent(findings, "", " ")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.out, "%s\n", b); err != nil {
			return err
		}
	} else if err := doctor.Write(s.out, findings); err != nil {
		return err
	}
	if doctor.Worst(findings) == doctor.Fail {
		return &exitError{1, nil}
	}
	return nil
}
