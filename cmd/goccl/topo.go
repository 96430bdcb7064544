package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/topo"
)

type topoCommand struct {
	JSON bool   `name:"json" xor:"form" help:"As JSON, the form of the machines in topo/testdata."`
	SVG  bool   `name:"svg" xor:"form" help:"As a picture."`
	From string `placeholder:"FILE" help:"Show a machine recorded with --json, not this one."`
}

// Run prints the machine.
func (c *topoCommand) Run(ctx context.Context, s *streams) error {
	var m *topo.Machine
	var err error
	if c.From != "" {
		b, e := regular.Read(c.From, maxTextBytes)
		if e != nil {
			return e
		}
		if m, err = topo.Decode(b); err != nil {
			return fmt.Errorf("%s: %w", c.From, err)
		}
	} else if m, err = topo.Detect(ctx); err != nil {
		return err
	}
	var out bytes.Buffer
	switch {
	case c.JSON:
		b, err := topo.Encode(m)
		if err != nil {
			return err
		}
		out.Write(b)
	case c.SVG:
		err = m.WriteSVG(&out)
	default:
		err = m.WriteTable(&out)
	}
	if err != nil {
		return err
	}
	_, err = s.out.Write(out.Bytes())
	return err
}
