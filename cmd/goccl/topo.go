package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/topo"
)

type topoCommand struct {
	JSON bool   `name:"json" xor:"form" help:"As JSON, the form of the machines in topo/testdata."`
	SVG  bool   `name:"svg" xor:"form" help:"As a picture."`
	From string `placeholder:"FILE" help:"Show a machine recorded with --json, not this one."`
}

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
		if err = m.WriteTable(&out); err == nil {
			err = writeLinks(&out, m)
		}
	}
	if err != nil {
		return err
	}
	_, err = s.out.Write(out.Bytes())
	return err
}

// writeLinks says which link each pair of GPUs would use in this environment, and why.
func writeLinks(w io.Writer, m *topo.Machine) error {
	if len(m.GPUs) < 2 {
		return nil
	}
	env, err := setting.Read("GOCCL_LINK")
	if err != nil {
		return err
	}
	pairs, impossible := nvlink.Expect(m, env)
	if impossible != nil {
		_, err = fmt.Fprintf(w, "Links: %v\n", impossible)
		return err
	}
	_, err = fmt.Fprintf(w, "Links of goccl, if they work as the driver says (goccl doctor): %s\n", nvlink.Describe(pairs))
	return err
}
