package main

import (
	"encoding/json"
	"fmt"

	"github.com/goccl/goccl/internal/buildinfo"
)

type versionCommand struct {
	JSON bool `name:"json" help:"As JSON."`
}

// Run prints the build's description.
func (c *versionCommand) Run(s *streams) error {
	i := buildinfo.Read()
	if c.JSON {
		b, err := json.MarshalIndent(i, "", " ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.out, "%s\n", b)
		return err
	}
	cgo := "without cgo: no CUDA device"
	if i.Cgo {
		cgo = "with cgo"
	}
	_, err := fmt.Fprintf(s.out, "goccl %s (commit %s), %s, %s/%s, %s\n", i.Version, i.Commit, i.Go, i.OS, i.Arch, cgo)
	return err
}
