package record

import (
	"sync/atomic"
	"time"
)

// useCounter is constant after initialization.
var useCounter = hasCounter()

var clockBase = time.Now()

// ticks is the time in ticks of this process's counter, never 0.
func ticks() uint64 {
	if useCounter {
		return counter()
	}
	return uint64(time.Since(clockBase)) + 1
}

// clock relates ticks to nanoseconds since 1970 by two points in time. It lies in the file, so that others can convert.
// Its owner moves the second point. A clock that is set does not matter: the second point is the first and the
// monotonic time since.
type clock struct {
	ticks0 uint64
	unix0  int64
	ticks1 atomic.Uint64
	unix1  atomic.Int64
}

// leastInterval is the least distance of the points, for a rate of about one in a thousand.
const leastInterval = 100 * time.Microsecond

// Now is the time in nanoseconds since 1970, as it was when the process began plus the monotonic time since.
func Now() int64 { return clockBase.UnixNano() + int64(time.Since(clockBase)) }

func (c *clock) start() {
	c.ticks0, c.unix0 = ticks(), Now()
	for Now()-c.unix0 < int64(leastInterval) {
		continue
	}
	c.adjust()
}

// adjust moves the second point to now.
func (c *clock) adjust() {
	c.ticks1.Store(ticks())
	c.unix1.Store(Now())
}

// rate is nanoseconds per tick.
func (c *clock) rate() float64 {
	d, n := c.ticks1.Load()-c.ticks0, c.unix1.Load()-c.unix0
	if d == 0 || d > 1<<62 || n <= 0 {
		return 1
	}
	return float64(n) / float64(d)
}

// unix converts a time in ticks; 0 remains 0.
func (c *clock) unix(t uint64) int64 {
	if t == 0 {
		return 0
	}
	return c.unix0 + int64(float64(int64(t-c.ticks0))*c.rate())
}
