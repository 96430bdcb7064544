package nvlink

import (
	"cmp"
	"fmt"
	"math"

	"github.com/goccl/goccl/collective"
)

// limits bounds the blocks of a launch. They are the same on all ranks.
type limits struct {
	least, most int64
	policy      collective.CTAPolicy
}

// efficientBlocks is the most blocks of a launch with CTAPolicyEfficiency, unless a lower limit is larger.
const efficientBlocks = 8

// limits returns the communicator's limits, whose bound by policy is left to the request.
func (t *terms) limits() limits {
	return limits{t.least, cmp.Or(t.blocks, math.MaxInt64), t.policy}
}

// stage returns the size of a stage. Only with CTAPolicyZero do messages go through stages.
func (t *terms) stage() int64 {
	n := int64(len(t.links.all))
	if t.policy != collective.CTAPolicyZero || t.copies == copyNever || !t.memOps || n == 1 || t.gpu.Link >= HostMemory {
		return 0
	}
	return min(8<<20, (32<<20)/n) &^ 4095
}

// later reports whether pieces are made at their first use: where they can be freed, and made anew at the addresses
// that they had.
func (t *terms) later() bool { return t.vmm && t.gpu.Link < HostMemory && len(t.links.all) > 1 }

// of returns the limits of a request's launches: its own within the communicator's. Its own policy wins.
func (l limits) of(r *collective.Request) limits {
	if l.least = max(l.least, int64(r.MinCTAs)); r.MaxCTAs > 0 {
		l.most = min(l.most, int64(r.MaxCTAs))
	}
	l.least = min(l.least, l.most)
	l.policy = cmp.Or(r.CTAPolicy, l.policy)
	if l.policy == collective.CTAPolicyEfficiency {
		l.most = min(l.most, max(l.least, efficientBlocks))
	}
	return l
}

// spread returns the threads of a block such that units make at least the least number of blocks, if each block then
// still has a warp.
func (l limits) spread(units, threads int64) int64 {
	if l.least > 1 {
		threads = min(threads, max(32, units/l.least&^31))
	}
	return threads
}

// ringPart is the least of a slice that a channel gets because of a lower limit.
const ringPart = ringLeast / 4

// channels returns the number of ring channels for a slice, of which the table wants at most wanted and the GPUs allow
// at most room.
func (l limits) channels(slice, wanted, room int64) int64 {
	room = min(room, l.most)
	n := min(wanted, room, (slice+ringLeast-1)/ringLeast)
	return max(n, min(l.least, room, slice/ringPart))
}

// lane returns the most channels of a lane of messages, at most room: a launch has up to 2n-1 lanes.
func (l limits) lane(room, n int) int64 { return max(1, min(int64(room), l.most/int64(2*n-1))) }

// named returns the variant that a request names.
func (e *Engine) named(r *collective.Request) (variant, error) {
	v, err := parseVariant(r.Collective, r.Algorithm)
	if err == nil {
		err = e.table.allows(r.Collective, v)
	}
	if err == nil && v.wide() && v.protocol != stream && e.size > 1 {
		err = e.loadLarge(v.protocol)
	}
	if err != nil {
		return v, fmt.Errorf("%v: %w", r.Collective, err)
	}
	return v, nil
}
