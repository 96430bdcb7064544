package doctor

import (
	"context"
	"fmt"
)

// adapters reports what data really does through each network adapter, in a loop from this host to itself.
func (s Source) adapters(ctx context.Context, r *report) {
	if s.NICs == nil {
		return
	}
	r.area = "network"
	for _, v := range s.NICs(ctx) {
		name := v.Net
		if v.Name != "" {
			name += " " + v.Name
		}
		if v.Error != "" {
			r.fail(name, "jobs of several hosts cannot use it: choose others with GOCCL_SOCKET_IFNAME, or look at the "+
				"adapter with ip link and the firewall with nft list ruleset", "%s", v.Error)
			continue
		}
		text := fmt.Sprintf("all data right in a loop; %.1f µs for 8 bytes, %.3g GB/s", v.Micros, v.GBps)
		if v.Speed > 0 {
			text += fmt.Sprintf(" (the adapter says %.3g; a loop does not pass the wire)", v.Speed)
		}
		if v.DeviceMem {
			text += ", reaches GPU memory"
		}
		r.ok(name, "%s", text)
	}
}
