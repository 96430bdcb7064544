package launcher

import "time"

// Stall detects work that does not end: an owner that was never seen idle since its latest submission. T identifies a
// submission; its zero value is none. A look calls the driver, so looks are rare.
type Stall[T comparable] struct {
	After  time.Duration // of the warning; <= 0: none
	looked time.Time     // of the last look
	latest T             // at that look
	since  time.Time     // when latest was first seen; moves on while idle
	warned bool          // of latest
}

// lookEvery is the time between looks, unless the warning is due sooner.
const lookEvery = 5 * time.Second

// Look returns how long latest has not ended, once, when it is time for the warning, else 0.
func (s *Stall[T]) Look(now time.Time, latest T, busy func() bool) time.Duration {
	if s.After <= 0 || now.Sub(s.looked) < min(lookEvery, s.After/4) {
		return 0
	}
	s.looked = now
	if latest != s.latest {
		s.latest, s.since, s.warned = latest, now, false
		return 0
	}
	var none T
	if s.warned || latest == none {
		return 0
	}
	if !busy() {
		s.since = now
		return 0
	}
	if now.Sub(s.since) < s.After {
		return 0
	}
	s.warned = true
	return now.Sub(s.since)
}
