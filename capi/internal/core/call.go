package core

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/cuda"
)

// nearest are goccl's algorithms for NCCL's names, best first.
var nearest = map[string][]string{
	"tree": {"one_shot_ll128", "one_shot_ll", "one_shot", "staged"},
	"ring": {"ring", "two_shot_ll128", "two_shot", "direct"},
}

// configure fills in what q's configuration says.
func (c *comm) configure(q *Request, out *collective.Request) error {
	cfg := q.Config
	if uintptr(cfg.Size) < unsafe.Offsetof(cfg.AllCounts) { // before AllCounts there was the rest
		return c.argument(q, "goccl_call_config.size is %d, not %d", cfg.Size, unsafe.Sizeof(*cfg))
	}
	if cfg.MaxCTAs != 0 && cfg.MinCTAs > cfg.MaxCTAs {
		return c.argument(q, "min_ctas is %d, max_ctas %d", cfg.MinCTAs, cfg.MaxCTAs)
	}
	if cfg.CTAPolicy > uint32(collective.CTAPolicyZero) {
		return c.argument(q, "cta_policy is %d", cfg.CTAPolicy)
	}
	most := cfg.MaxCTAs
	if m := c.cfg.MaxCTAs; m != 0 && int(most) > m && cfg.Force == 0 {
		most = uint16(m)
	} else if m != 0 && int(most) > m {
		return c.argument(q, "max_ctas is %d, more than the communicator's %d", cfg.MaxCTAs, m)
	}
	if _, gpu := c.dev.Device.(*cuda.Device); cfg.Launched != 0 && !gpu {
		return c.argument(q, "an event for the launch: the host device has no CUDA events")
	}
	known := uintptr(cfg.Size) > unsafe.Offsetof(cfg.AllCounts) && cfg.AllCounts != nil
	if known && out.Collective == collective.AllToAllV {
		out.AllCounts = unsafe.Slice((*int64)(cfg.AllCounts), c.size*c.size)
	}
	if uintptr(cfg.Size) > unsafe.Offsetof(cfg.Exact) {
		if cfg.Exact > uint32(collective.ExactReference) {
			return c.argument(q, "exact is %d: want a GOCCL_EXACT", cfg.Exact)
		}
		out.Exact = collective.Exact(cfg.Exact)
	}
	out.MinCTAs, out.MaxCTAs, out.CTAPolicy = min(cfg.MinCTAs, most), most, collective.CTAPolicy(cfg.CTAPolicy)
	list := cString(cfg.Algorithms)
	if list == "" {
		return nil
	}
	out.Algorithm = c.choose(out.Collective, list)
	if out.Algorithm == "" && cfg.Force != 0 {
		return c.argument(q, "%v has no algorithm among %q; goccl perf %v --algo list names them", out.Collective, list,
			out.Collective)
	}
	return nil
}

// choose returns the first name in list that the communicator has for a collective, or "".
func (c *comm) choose(what collective.Collective, list string) string {
	inner := c.inner.Load()
	if inner == nil {
		return ""
	}
	catalog := inner.Catalog()
	for name := range strings.SplitSeq(strings.ToLower(list), ",") {
		name = strings.TrimSpace(name)
		for _, want := range append([]string{name}, nearest[name]...) {
			for _, a := range catalog {
				if a.Collective == what && a.Forceable && a.Name == collective.BaseName(want) {
					return want
				}
			}
		}
	}
	return ""
}

func cString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return strings.Clone(unsafe.String(p, n))
}

// launched records the events of the requests' configurations behind their work.
func (g *group) launched(reqs []Request) error {
	for i := range reqs {
		if cfg := reqs[i].Config; cfg != nil && cfg.Launched != 0 {
			s, ok := g.reqs[i].Stream.(*cuda.Stream)
			if !ok {
				return fmt.Errorf("%w: an event for the launch needs a CUDA stream", ErrInvalidArgument)
			}
			if err := s.RecordRaw(cfg.Launched); err != nil {
				return err
			}
		}
	}
	return nil
}
