package ib

import (
	"slices"
	"strconv"
	"strings"
)

// filter is GOCCL_IB_HCA or NCCL_IB_HCA: "mlx5_0:1,mlx5_2", "^mlx5_3", "=mlx5_1", "^=mlx5_1".
type filter struct {
	avoid, exact bool
	entries      []entry
}

type entry struct {
	name string
	port int // 0: every port
}

func parseFilter(spec string) (f filter) {
	spec, f.avoid = strings.CutPrefix(strings.TrimSpace(spec), "^")
	spec, f.exact = strings.CutPrefix(strings.TrimSpace(spec), "=")
	for s := range strings.SplitSeq(spec, ",") {
		name, port, _ := strings.Cut(strings.TrimSpace(s), ":")
		if name == "" {
			continue
		}
		n, _ := strconv.Atoi(port)
		f.entries = append(f.entries, entry{name, n})
	}
	return f
}

func (f filter) match(device string, port int) bool {
	if len(f.entries) == 0 {
		return true
	}
	hit := slices.ContainsFunc(f.entries, func(e entry) bool {
		return (device == e.name || !f.exact && strings.HasPrefix(device, e.name)) && (e.port == 0 || e.port == port)
	})
	return hit != f.avoid
}
