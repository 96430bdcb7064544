package nvlink

import (
	"fmt"
	"math"

	"github.com/goccl/goccl/collective"
)

// limits bounds the blocks of a launch. They are the same on all ranks.
type limits struct{ least, most int64 }

// limitsOf returns the limits of a request's launches: its own, and the communicator's lower limit.
func limitsOf(r *collective.Request, least int64) limits {
	l := limits{max(least, int64(r.MinCTAs)), int64(r.MaxCTAs)}
	if l.most == 0 {
		l.most = math.MaxInt64
	}
	l.least = min(l.least, l.most)
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

// named returns the variant that a request names.
func (e *Engine) named(r *collective.Request) (variant, error) {
	v, err := parseVariant(r.Collective, r.Algorithm)
	if err == nil {
		err = e.table.allows(r.Collective, v)
	}
	if err == nil && v.protocol == ring && e.size > 1 {
		err = e.loadRing()
	}
	if err != nil {
		return v, fmt.Errorf("%v: %w", r.Collective, err)
	}
	return v, nil
}
