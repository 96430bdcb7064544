package main

import (
	"fmt"
	"strings"

	"github.com/goccl/goccl/internal/setting"
)

// environment is a table of docs/environment.md, from the table by which the environment is read.
func environment(section string) (string, error) {
	var b strings.Builder
	own := map[string]setting.Section{"own": setting.Own, "foreign": setting.Foreign, "doors": setting.Doors,
		"tests": setting.Tests}
	honoured, ignored := setting.NCCL()
	switch at, ok := own[section]; {
	case ok:
		b.WriteString("| variable | default | |\n|---|---|---|\n")
		for _, v := range setting.Variables() {
			if v.Section == at {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.Name, v.Default, v.Doc)
			}
		}
	case section == "honoured":
		b.WriteString("| variable | here |\n|---|---|\n")
		for _, h := range honoured {
			fmt.Fprintf(&b, "| %s | %s |\n", h.Names, h.Doc)
		}
	case section == "ignored":
		b.WriteString("| variables | why |\n|---|---|\n")
		for _, g := range ignored {
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.Join(g.Names, "`, `"), g.Why)
		}
	default:
		return "", fmt.Errorf("the environment has no section %q", section)
	}
	return b.String(), nil
}
