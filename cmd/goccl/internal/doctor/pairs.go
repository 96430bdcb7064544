package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/goccl/goccl/cmd/goccl/internal/links"
	"github.com/goccl/goccl/job/topo"
)

// slowMicros is the time of a small exchange from which a pair is reported as slow. Three links take 5 to 15 µs.
const slowMicros = 60

// pairs reports what data really does between each pair of GPUs.
func (s Source) pairs(ctx context.Context, r *report, m *topo.Machine, n int) {
	if n < 2 || s.Links == nil {
		return
	}
	found, err := s.Links(ctx, n)
	good := map[string][]links.Verdict{}
	for _, v := range found {
		name, promise := "link "+v.Pair(), v.Promise(m)
		figures := fmt.Sprintf("%s, all data right both ways; %.1f µs for 8 bytes, %s", v.Link, v.Micros, bandwidth(v.GBps,
			v.GBps, promise))
		switch {
		case v.Error != "":
			r.fail(name, "leave one of the two out with CUDA_VISIBLE_DEVICES; see dmesg for Xid errors; turn off ACS and "+
				"IOMMU translation in the firmware, or set GOCCL_LINK=host", "%s", v.Error)
		case promise > 0 && v.GBps < promise*0.4:
			r.warn(name, "see nvidia-smi topo -m and nvidia-smi -q -d PCIE,ROW_REMAPPER: a link may be narrow, slow or busy",
				"%s", figures)
		case v.Micros > slowMicros:
			r.warn(name, "stop what else runs on the two GPUs and on this host, and look again", "%s", figures)
		default:
			good[v.Link+v.Reason] = append(good[v.Link+v.Reason], v)
		}
	}
	for _, v := range found {
		if same := good[v.Link+v.Reason]; len(same) > 0 && same[0] == v {
			sameLink(r, m, same)
		}
	}
	if err != nil {
		r.warn("links", "goccl doctor --timeout 2m", "%v", err)
	}
}

// sameLink reports pairs that have the same link for the same reason, and of which none is bad.
func sameLink(r *report, m *topo.Machine, same []links.Verdict) {
	name := "link " + same[0].Pair()
	if len(same) > 1 {
		name = fmt.Sprintf("%d links", len(same))
	}
	slowest := slices.MaxFunc(same, func(a, b links.Verdict) int { return cmp.Compare(a.Micros, b.Micros) })
	least := slices.MinFunc(same, func(a, b links.Verdict) int { return cmp.Compare(a.GBps, b.GBps) })
	most := slices.MaxFunc(same, func(a, b links.Verdict) int { return cmp.Compare(a.GBps, b.GBps) })
	text := fmt.Sprintf("%s, all data right both ways; at most %.1f µs for 8 bytes, %s", same[0].Link, slowest.Micros,
		bandwidth(least.GBps, most.GBps, same[0].Promise(m)))
	if reason := same[0].Reason; reason != "" {
		text += ": " + reason
	}
	r.ok(name, "%s", text)
}

// bandwidth is a text of a range and what the link promises.
func bandwidth(least, most, promise float64) string {
	text := fmt.Sprintf("%.3g GB/s each way", least)
	if fmt.Sprintf("%.3g", least) != fmt.Sprintf("%.3g", most) {
		text = fmt.Sprintf("%.3g to %.3g GB/s each way", least, most)
	}
	if promise > 0 {
		text += fmt.Sprintf(" of %.3g", promise)
	}
	return text
}
