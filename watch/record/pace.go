package record

import (
	"sync/atomic"
	"time"
)

// pace decides which operations read the clock. A read costs as much as all the rest of a record. If operations follow
// each other rapidly, only one of strideOfStamps does: those with a number that it divides, on all ranks the same. The
// others are stored as untimed, and readers estimate their times (region.estimate). The monitor sets the pace at each
// look, and stamps an operation itself that it finds waiting (Recorder.adopt).
type pace struct {
	skip  atomic.Uint64 // strideOfStamps-1, or 0: each operation reads the clock
	brief atomic.Uint64 // ticks; one that takes longer does not stand for its neighbours

	count uint64 // operations at the latest look, which was at
	at    int64
}

const (
	// untimed replaces ticks where the time is not known: the event has happened.
	untimed = 1

	strideOfStamps = 8
	// rapid is how many operations in a second are too many to stamp each: 20 us for each.
	rapid = 50000
	// briefly bounds what an operation's time may stand for.
	briefly = time.Millisecond
)

// stamp is the time now, or untimed.
func (p *pace) stamp(number uint64) uint64 {
	if number&p.skip.Load() != 0 {
		return untimed
	}
	return ticks()
}

// weighed scales the duration d of a sampled operation to account for the unsampled ones around it.
func (p *pace) weighed(number, d uint64) uint64 {
	if s := p.skip.Load(); s != 0 && number&s == 0 && d < p.brief.Load() {
		return d * (s + 1)
	}
	return d
}

// set sets the pace by the operations since the latest look. The caller holds the recorder's mu.
func (p *pace) set(count uint64, now int64, rate float64) {
	var skip uint64
	if d := now - p.at; p.at != 0 && d > 0 && float64(count-p.count) > rapid*float64(d)/float64(time.Second) {
		skip = strideOfStamps - 1
	}
	p.count, p.at = count, now
	p.brief.Store(uint64(float64(briefly) / rate))
	p.skip.Store(skip)
}

// adopt gives a waiting, unsampled operation the current time. That is at most one polling interval late, so waits are
// never overestimated. The caller holds mu.
func (x *Recorder) adopt(message bool, number uint64) {
	ring := x.r.ring(message)
	e, ran := &ring.entries[number&x.mask], &ring.runs[number&x.mask]
	t := ticks()
	if atomic.LoadUint64(&e.number) == number && e.enqueued == untimed {
		e.enqueued = t
	}
	if atomic.LoadUint64(&ran.number) == number && ran.ended == 0 && ran.started == untimed {
		ran.started = t
	}
}

// Times of an operation.
type moment int

const (
	calledAt moment = iota
	startedAt
	endedAt
)

// time returns the stored time of an operation's moment: 0, untimed or ticks. It is 0 if the ring does not have the
// operation.
func (g *ring) time(m moment, number uint64) (t uint64) {
	at := number % uint64(len(g.entries))
	owner, field := &g.entries[at].number, &g.entries[at].enqueued
	if ran := &g.runs[at]; m != calledAt {
		if owner, field = &ran.number, &ran.started; m == endedAt {
			field = &ran.ended
		}
	}
	if atomic.LoadUint64(owner) == number {
		t = *field
	}
	if atomic.LoadUint64(owner) != number {
		t = 0
	}
	return t
}

// estimate is the time of an untimed operation, by its neighbours that have times. Between two that are far apart
// something has paused, so the earlier one counts.
func (g *ring) estimate(m moment, number uint64, c *clock) uint64 {
	var before, after, k uint64
	for k = 1; k < strideOfStamps && k < number && before <= untimed; k++ {
		before = g.time(m, number-k)
	}
	down := k - 1
	for k = 1; k < strideOfStamps && after <= untimed; k++ {
		after = g.time(m, number+k)
	}
	up := k - 1
	switch {
	case before > untimed && after > before && c.unix(after)-c.unix(before) < int64(lookEvery):
		return before + (after-before)*down/(down+up)
	case before > untimed:
		return before
	case after > untimed:
		return after
	}
	return c.ticks1.Load()
}
