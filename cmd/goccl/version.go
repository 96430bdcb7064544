package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/plan"
)

// interfaces are the versions of what this release works with, oldest and newest. docs/versions.md explains them, and
// tests compare them with the headers.
var interfaces = map[string][2]string{
	"C":           {"1", "1"},
	"NCCL":        {"2.28", "2.32"},
	"MSCCL++":     {"0.9", "0.9"},
	"PyTorch":     {"2.11", "2.15"},
	"plan format": {"1", fmt.Sprint(plan.SchemaVersion)},
}

type versionCommand struct {
	JSON bool `name:"json" help:"As JSON."`
}

func (c *versionCommand) Run(s *streams) error {
	i := buildinfo.Read()
	if c.JSON {
		return s.writeJSON(struct {
			buildinfo.Info
			Interfaces map[string][2]string `json:"interfaces"`
		}{i, interfaces})
	}
	cgo := "without cgo: no CUDA device"
	if i.Cgo {
		cgo = "with cgo"
	}
	_, err := fmt.Fprintf(s.out, "goccl %s (commit %s), %s, %s/%s, %s\n", i.Version, i.Commit, i.Go, i.OS, i.Arch, cgo)
	for _, name := range slices.Sorted(maps.Keys(interfaces)) {
		versions := interfaces[name]
		fmt.Fprintf(s.out, "  %-12s %s\n", name, strings.Join(slices.Compact(versions[:]), " to "))
	}
	return err
}
