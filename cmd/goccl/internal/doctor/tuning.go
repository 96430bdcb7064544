package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/job/topo"
)

// tuning reports the table that selects algorithms on these GPUs, and the GPUs for which there are no kernels.
func tuning(r *report, m *topo.Machine, env map[string]string) {
	if m == nil || len(m.GPUs) == 0 {
		return
	}
	all := nvlink.GPU{Name: m.GPUs[0].Name}
	for i := range m.GPUs {
		g := &m.GPUs[i]
		major, minor := capability(g.Compute)
		if i == 0 {
			all.Major, all.Minor = major, minor
		}
		all.Meet(nvlink.GPU{Name: g.Name, Major: major, Minor: minor})
		if major > 0 && major < 8 {
			r.fail(fmt.Sprintf("GPU %d", g.Index), "leave it out with CUDA_VISIBLE_DEVICES",
				"%s has compute capability %s; goccl's kernels need 8.0 or later", g.Name, g.Compute)
		}
	}
	for _, l := range m.Links {
		switch {
		case !l.P2P:
			all.Link = nvlink.HostMemory
		case l.Path != topo.PathNVLink:
			all.Link = max(all.Link, nvlink.PCIe)
		}
	}
	const name = "tuning"
	if path := env["GOCCL_TUNING"]; path != "" {
		r.ok(name, "GOCCL_TUNING chooses algorithms")
		return
	}
	measured, note, err := nvlink.Tuned(all, len(m.GPUs))
	switch {
	case err != nil:
		r.fail(name, "this is an error in goccl: please report it", "%v", err)
	case measured:
		r.ok(name, "a table for these GPUs chooses algorithms: %s", note)
	default:
		r.warn(name, "goccl tune --out FILE, and GOCCL_TUNING=FILE for every rank",
			"algorithms are chosen by a table that is %s", note)
	}
}

// capability parses, for example, "9.0".
func capability(s string) (major, minor int) {
	a, b, _ := strings.Cut(s, ".")
	major, _ = strconv.Atoi(a)
	minor, _ = strconv.Atoi(b)
	return major, minor
}
