package nvlink

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
)

// GPU is what a table is chosen for.
type GPU struct {
	Name         string // like "NVIDIA H200"; empty where ranks have different ones
	Major, Minor int    // compute capability, the least of all ranks'
	PCIe         bool   // not every pair of ranks has NVLink
}

// anyOverPCIe is the GPU of the table for those.
const anyOverPCIe = "PCIe"

// Meet makes g what it has in common with another.
func (g *GPU) Meet(o GPU) {
	if g.Name != o.Name {
		g.Name = ""
	}
	if o.Major < g.Major || o.Major == g.Major && o.Minor < g.Minor {
		g.Major, g.Minor = o.Major, o.Minor
	}
}

// bandwidth is what NVLink carries out of a GPU of this kind, in GB/s, at least roughly: NVIDIA's figures for the best-known model of each capability.
func (g GPU) bandwidth() int64 {
	switch {
	case g.Major == 8 && g.Minor == 0: // A100
		return 300
	case g.Major == 8: // A40, RTX A6000, by a bridge
		return 56
	case g.Major == 9: // H100, H200
		return 450
	}
	return 900 // B200
}

// measuredBandwidth is that of the GPU that the embedded tables were measured on.
const measuredBandwidth = 450

// derive makes a table that was measured on another GPU fit g. The sizes where one algorithm gives way to the next are where the time of the bytes on the link
// outweighs that of a flag on its way; flags take about as long everywhere, so these sizes grow with the bandwidth.
func (t *Table) derive(g GPU) {
	scale := func(rows []Row) []Row {
		out := rows[:0]
		for _, r := range rows {
			r.Bytes = r.Bytes * g.bandwidth() / measuredBandwidth
			out = append(out, r)
		}
		return slices.Clip(out)
	}
	for c, rows := range t.Collectives {
		t.Collectives[c] = scale(rows)
	}
	for i := range t.Special {
		t.Special[i].Rows = scale(t.Special[i].Rows)
	}
	t.Note = fmt.Sprintf("not measured on this GPU: sizes of %s × %d/%d, as the bandwidths of NVLink", t.GPU, g.bandwidth(), measuredBandwidth)
	t.GPU, t.standIn = g.Name, true
}

// Tuned says how the embedded tables know a GPU: measured, or what stands in.
func Tuned(g GPU, ranks int) (measured bool, note string, err error) {
	t, err := embedded(g, ranks)
	if err != nil {
		return false, "", err
	}
	return !t.standIn, t.Note, nil
}

var warned sync.Map

// warnOnce warns once in a process.
func warnOnce(text string, args ...any) {
	if _, before := warned.LoadOrStore(text+fmt.Sprint(args...), true); !before {
		slog.Warn(text, args...)
	}
}
