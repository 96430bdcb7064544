package nvlink

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
)

// GPU is the key by which a table is chosen.
type GPU struct {
	Name         string   // like "NVIDIA H200"; empty if the ranks have different models
	Major, Minor int      // compute capability, the minimum over all ranks
	Link         LinkKind // the worst of any pair of ranks
}

// Meet reduces g to the properties that it shares with o.
func (g *GPU) Meet(o GPU) {
	if g.Name != o.Name {
		g.Name = ""
	}
	if o.Major < g.Major || o.Major == g.Major && o.Minor < g.Minor {
		g.Major, g.Minor = o.Major, o.Minor
	}
}

// bandwidth is the approximate NVLink bandwidth out of a GPU of this kind, in GB/s: NVIDIA's figures for the best-known
// model of each capability.
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

// referenceGPU is the GPU whose embedded tables serve others as well, and measuredBandwidth is its bandwidth.
const (
	referenceGPU      = "NVIDIA H200"
	measuredBandwidth = 450
)

// derive adapts a table that was measured on another GPU to g. One algorithm replaces another at the size where the
// transfer time of the bytes exceeds the latency of a flag. Flag latency is about the same everywhere, so these sizes
// scale with the bandwidth.
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
	t.Note = fmt.Sprintf("not measured on this GPU: sizes of %s × %d/%d, as the bandwidths of NVLink", t.GPU,
		g.bandwidth(), measuredBandwidth)
	t.GPU, t.standIn = g.Name, true
}

// Tuned reports whether the embedded tables have measurements of a GPU; if not, note describes the table that is used
// instead.
func Tuned(g GPU, ranks int) (measured bool, note string, err error) {
	t, err := embedded(g, ranks)
	if err != nil {
		return false, "", err
	}
	return !t.standIn, t.Note, nil
}

var warned sync.Map

// warnOnce logs a warning once per process.
func warnOnce(text string, args ...any) {
	if _, before := warned.LoadOrStore(text+fmt.Sprint(args...), true); !before {
		slog.Warn(text, args...)
	}
}
