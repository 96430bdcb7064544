package interp_test

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan"
)

func (b *plainBlock) thread(i int) int {
	if at, ok := b.threads[i]; ok {
		return at
	}
	return b.begin
}

// step runs one op of b, and reports whether it could.
func (m *plain) step(b *plainBlock) (bool, error) {
	if b.pc == len(b.steps) {
		m.meet(b)
		b.done = true
		return true, nil
	}
	s := b.steps[b.pc]
	if s.Op.ChannelType == plan.PortChannel {
		return false, errNotPlain
	}
	switch {
	case s.Does.Has(plan.Meets):
		m.meet(b)
	case s.Does.Has(plan.Joins):
		return m.barrier(b, s)
	case s.Does.Has(plan.Moves):
		if on, err := m.move(b, s); !on || err != nil {
			return false, err
		}
	case s.Does.Has(plan.Takes):
		for i := range s.Entries() {
			if c := m.counter(b.rank, s, i, false); c.taken >= len(c.moments)+c.init {
				return false, nil
			}
		}
		for i := range s.Entries() {
			c := m.counter(b.rank, s, i, false)
			same := c.block == b && (c.begin != b.begin || c.thread == i)
			if c.block != nil && !same || c.taken >= len(c.moments)+c.init {
				return false, errNotPlain
			}
			c.block, c.begin, c.thread = b, b.begin, i
			at := m.moment(b.thread(i))
			for k := 0; k <= c.taken-c.init; k++ {
				m.edges[at] = append(m.edges[at], edge{c.moments[k], false})
			}
			c.taken++
			b.threads[i] = at
		}
	case s.Does.Has(plan.Adds):
		for i := range s.Entries() {
			c := m.counter(b.rank, s, i, true)
			if c.from != nil && c.from != b {
				return false, errNotPlain
			}
			c.from = b
			from := b.thread(i)
			if !s.Kind.Semaphores && s.Kind.Relaxed() && b.opening {
				from = m.turn[b.rank]
			}
			c.moments = append(c.moments, m.moment(from))
		}
	}
	b.opening = b.opening && s.Kind.Opens()
	b.pc++
	return true, nil
}

func (m *plain) counter(r int, s plainStep, i int, adds bool) *plainCounter {
	key, initial := "", 0
	if s.Kind.Semaphores {
		key = fmt.Sprintf("semaphore %d.%d", r, s.Op.SemaphoreIDs[i])
		initial = m.p.GPUs[r].Semaphores[s.Op.SemaphoreIDs[i]].InitValue
	} else {
		links := m.p.Links()
		at := links.Index(r, s.Op.ChannelType, s.Channels[i])
		if adds {
			at = links.All[at].Pair
		}
		key = fmt.Sprint("link ", at)
	}
	c := m.counts[key]
	if c == nil {
		c = &plainCounter{init: initial}
		m.counts[key] = c
	}
	return c
}

func (m *plain) barrier(b *plainBlock, s plainStep) (bool, error) {
	if b.arrived {
		b.arrived = false
		b.pc++
		return true, nil
	}
	key := [2]int{b.rank, s.Op.BarrierID}
	if slices.Contains(m.meets[key], b) {
		return false, nil
	}
	m.meet(b)
	m.meets[key] = append(m.meets[key], b)
	if len(m.meets[key]) < s.Op.NumThreadBlocks {
		return false, nil
	}
	at := m.moment()
	for _, o := range m.meets[key] {
		m.edges[at] = append(m.edges[at], edge{o.begin, false})
	}
	for _, o := range m.meets[key] {
		o.begin, o.arrived = m.moment(at), o != b
	}
	m.meets[key] = nil
	b.pc++
	return true, nil
}
