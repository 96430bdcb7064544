package verify

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/goccl/goccl/plan"
)

// counter is a semaphore, or the inbound half of a channel, which is a semaphore that starts at 0 and counts signals.
//
// A wait only needs a minimum number of arrivals, and arrivals are never taken back. With one consumer at a time, each
// of its waits therefore passes in every interleaving or in none, and so one run decides about deadlock.
//
// The k-th wait needs k arrivals (less the initial value). It receives the clocks that every possible set of k arrivals
// has in common: the m-th arrival from a thread block is in all of these sets if the other blocks' arrivals and the m-1
// before it do not suffice.
type counter struct {
	init     int
	arrivals []arrival
	total    int // arrivals so far; an arrival whose clock the consumer has received leaves the list
	waits    int
	consumer int    // thread block of the last wait, or -1
	phase    uint32 // of the last wait
	thread   int
	sent     tally // arrivals so far by thread block
	perBlock tally // arrivals per launch by thread block
	perWait  tally // waits per launch by thread block
	wake     []int // thread blocks that wait
}

// used reports whether the plan has done anything with the counter, or may yet.
func (c *counter) used() bool { return c.total > 0 || c.init != 0 || c.waits > 0 || c.consumer >= 0 }

type arrival struct {
	from  int
	nth   int // of this thread block, from 1
	at    event
	knows *clock
}

// tally counts by thread block. Most counters have one producer and one consumer, so it is a short list.
type tally []tallied

type tallied struct {
	block, n int
	loops    bool // n depends on the size of the message
}

func (t *tally) add(block int) *tallied {
	i := slices.IndexFunc(*t, func(e tallied) bool { return e.block == block })
	if i < 0 {
		i = len(*t)
		*t = append(*t, tallied{block: block})
	}
	(*t)[i].n++
	return &(*t)[i]
}

func (t tally) sum() (n int) {
	for _, e := range t {
		n += e.n
	}
	return n
}

// blocks returns the blocks with a count, in ascending order.
func (t tally) blocks() []int {
	ids := make([]int, len(t))
	for i, e := range t {
		ids[i] = e.block
	}
	slices.Sort(ids)
	return ids
}

// counting is the semaphores, channels and barriers. A counter's arrivals are those that a later wait may learn of, and
// its waits never exceed its total and initial value; a barrier has fewer arrivals than thread blocks.
type counting struct {
	counters []counter           // channels by link, then semaphores by rank
	barriers map[[2]int]*barrier // by rank and id
}

type barrier struct {
	size    int
	users   map[int]bool
	arrived []int
}

// layCounters creates the counters, and counts statically which blocks use them.
func (v *verifier) layCounters() {
	v.counters = slices.Repeat([]counter{{consumer: -1}}, len(v.links)+v.sems)
	for r := range v.p.GPUs {
		for i, s := range v.p.GPUs[r].Semaphores {
			v.counters[v.semaphore(r, i)].init = s.InitValue
		}
	}
	for _, b := range v.blocks {
		if !v.quotient.own(b.rank) {
			continue
		}
		for i := range b.program {
			s, loops := b.program[i].step, b.program[i].loop != nil
			if s.Does.Has(plan.Joins) {
				k := [2]int{b.rank, s.Op.BarrierID}
				if v.barriers[k] == nil {
					v.barriers[k] = &barrier{size: s.Op.NumThreadBlocks, users: map[int]bool{}}
				}
				v.barriers[k].users[b.id] = true
			}
			for at, does := range v.uses(b.rank, s) {
				if does == plan.Takes {
					v.counters[at].perWait.add(b.id)
				} else {
					to, g := v.quotient.counter(at)
					e := v.counters[to].perBlock.add(v.quotient.mirror(g, b).id)
					e.loops = e.loops || loops
				}
			}
		}
	}
}

// counterOf returns the index of the counter from which entry i of a step takes, or to which it adds: on a channel, the
// one at the peer's end, or -1 if the peer opens no such channel.
func (r *resolved) counterOf(rank int, s *plan.Step, i int, does plan.Effects) int {
	if s.Kind.Semaphores {
		return r.semaphore(rank, s.Op.SemaphoreIDs[i])
	}
	link := r.link(rank, s.Op.ChannelType, s.Channels[i])
	if does == plan.Adds {
		return r.links[link].Pair
	}
	return link
}

// uses visits the counters from which a step takes, and to which it adds.
func (r *resolved) uses(rank int, s *plan.Step) iter.Seq2[int, plan.Effects] {
	return func(yield func(int, plan.Effects) bool) {
		for _, does := range [2]plan.Effects{plan.Takes, plan.Adds} {
			for i := 0; s.Does.Has(does) && i < s.Entries(); i++ {
				if at := r.counterOf(rank, s, i, does); at >= 0 && !yield(at, does) {
					return
				}
			}
		}
	}
}

// home returns the counter that stands for one, of the rank that stands for its rank.
func (r *resolved) home(at int) int {
	if r.symmetry == nil || at >= len(r.links) {
		return at // a semaphore is used by its own rank
	}
	owner := r.links[at].Rank
	first, _ := r.linksOf(owner)
	home, _ := r.linksOf(r.symmetry.Representative(owner))
	return home + at - first
}

// name returns a description of the counter.
func (r *resolved) name(i int) string {
	if i < len(r.links) {
		l := &r.links[i]
		if l.Type == plan.HookChannel {
			return plan.HookName(r.plan, l)
		}
		return fmt.Sprintf("%s channel %d of rank %d to rank %d", l.Type, l.ID, l.Rank, l.Peer)
	}
	i -= len(r.links)
	rank := 0
	for rank+1 < len(r.semStart) && r.semStart[rank+1] <= i {
		rank++
	}
	return fmt.Sprintf("semaphore %d of rank %d", i-r.semStart[rank], rank)
}

func (r *resolved) semaphore(rank, id int) int { return len(r.links) + r.semStart[rank] + id }

// arrive adds an arrival and wakes the consumer.
func (v *verifier) arrive(b *blockState, at int, knows *clock) {
	c := &v.counters[at]
	c.arrivals = append(c.arrivals, arrival{b.id, c.sent.add(b.id).n, event{int32(b.id), int32(b.pc), int32(b.launch)},
		knows})
	c.total++
	if v.second.dry {
		key := [2]int{at, b.id}
		v.second.sent[key] = append(v.second.sent[key], knows)
	}
	for _, w := range c.wake {
		v.ready(w)
	}
	c.wake = c.wake[:0]
}

// open reports whether the next wait on c passes. If several unordered threads wait, a wait passes when there is one
// arrival for each of them: then it makes no difference which gets which, and all will pass.
func (v *verifier) open(b *blockState, at int) bool {
	c := &v.counters[at]
	if v.second.shared[at] {
		return c.total >= c.perWait.sum()*(b.launch+1)
	}
	return c.total+c.init > c.waits
}

// consume performs a wait by a thread of b, which receives the clocks that all ways to pass have in common. The
// previous wait must happen before this one. Otherwise timing decides which wait gets which arrivals: then the wait is
// the first one of the launch in some execution.
func (v *verifier) consume(b *blockState, thread, at int) error {
	c := &v.counters[at]
	if c.consumer >= 0 && !v.second.shared[at] {
		ordered := c.consumer == b.id && (c.phase < b.phase || c.thread == thread)
		if c.consumer != b.id {
			ordered = v.threadClock(b, thread).completed(c.consumer) > c.phase
		}
		if !ordered {
			return v.unordered(b, at)
		}
	}
	c.consumer, c.phase, c.thread = b.id, b.phase, thread
	c.waits++
	need := c.waits - c.init
	if v.second.shared[at] {
		need = c.perWait.sum()*b.launch + 1 - c.init
	}
	kept := c.arrivals[:0]
	for _, a := range c.arrivals {
		without, known := a.nth-1, true
		launches := int(a.at.launch) + 1
		for _, e := range c.perBlock {
			if e.block == b.id && a.from != b.id && !e.loops && !v.second.shared[at] {
				without += v.ownBefore(b, thread, at)
			} else if e.block != a.from {
				without += v.second.before(at, e.block, b, e.n*launches)
				known = known && !e.loops // there may be any number of them
			}
		}
		if known && without < need {
			b.threads[thread] = append(b.threads[thread], a.knows)
		}
		if known && without >= need || v.second.shared[at] { // no wait will ever know of the others
			kept = append(kept, a)
		}
	}
	c.arrivals = kept
	v.second.missed += len(kept)
	return nil
}

// ownBefore bounds how often b itself may have added to a counter when its thread passes a wait: all additions so
// far, and what other threads add before all threads of b meet again, because they may run ahead of this one. What
// comes later in the program comes later in every execution.
func (v *verifier) ownBefore(b *blockState, thread, at int) (n int) {
	for _, e := range v.counters[at].sent {
		if e.block == b.id {
			n = e.n
		}
	}
	for i := b.pc; i < len(b.program); i++ {
		s := b.program[i].step
		if s.Does&(plan.Meets|plan.Joins) != 0 {
			break
		}
		for k := 0; s.Does.Has(plan.Adds) && k < s.Entries(); k++ {
			if k != thread && v.counterOf(b.rank, s, k, plan.Adds) == at {
				n++
			}
		}
	}
	return n
}

// unordered notes that threads wait on a counter in no order, and ends the run. Semaphores can serve them; the state
// of a channel's waiter belongs to one thread at a time.
func (v *verifier) unordered(b *blockState, at int) error {
	err := v.ambiguous(b, at)
	if at < len(v.links) || v.shape.loops.used {
		return err
	}
	v.second.ambiguity = cmp.Or(v.second.ambiguity, err)
	v.second.shared[at] = true
	return errAgain
}

// ready puts a thread block into the run queue.
func (v *verifier) ready(b int) {
	if !v.queued[b] && !v.blocks[b].done {
		v.queued[b] = true
		v.queue = append(v.queue, b)
	}
}

// nextPhase ends a phase of b.
func (b *blockState) nextPhase() {
	b.phase++
	b.begins = append(b.begins, event{int32(b.id), int32(b.pc), int32(b.launch)})
	b.shared = nil
}

// forget drops the clocks from single threads and packets after they have been joined.
func (b *blockState) forget() {
	clear(b.threads)
	b.packets, b.pending = b.packets[:0], b.pending[:0]
}

// syncAll synchronizes all threads of b: a phase ends, and the clocks from single threads and packets are joined into
// base.
func (v *verifier) syncAll(b *blockState) {
	b.nextPhase()
	if len(b.threads) == 0 && len(b.packets) == 0 && len(b.pending) == 0 {
		return
	}
	k := b.base.mutable()
	for thread := range b.threads {
		for _, o := range b.threads[thread] {
			k.learn(o)
		}
	}
	for _, o := range b.packets {
		k.learnControl(o)
	}
	k.prove(b.pending)
	k.settle()
	b.forget()
	b.base = k
}

// share returns the clock of all threads of b, with b's own progress.
func (v *verifier) share(b *blockState) *clock {
	if b.shared == nil {
		k := b.base.mutable()
		k.set(b.id, b.phase)
		k.owner, k.phase = b.id, b.phase
		b.shared = k
	}
	return b.shared
}

// threadClock returns the clock of one thread of b.
func (v *verifier) threadClock(b *blockState, thread int) *clock {
	k := v.share(b)
	if len(b.threads[thread]) == 0 {
		return k
	}
	k = k.mutable()
	for _, o := range b.threads[thread] {
		k.learn(o)
	}
	return k
}

// portClock returns the clock of one thread of b, including the transfers ahead of it in the port channel: those
// pushed by the same thread, or in a phase that has completed according to the clock. They have left their sources,
// and, if delivered, arrived.
func (v *verifier) portClock(b *blockState, thread, link int, delivered bool) *clock {
	k := v.threadClock(b, thread)
	own := false
	for _, i := range v.linkPorts[link] {
		pt := &v.ports[i]
		comp := v.reader(i)
		if delivered {
			comp = v.writer(i)
		}
		n := k.visible(comp)
		for int(n) < len(pt.pushes) {
			q := pt.pushes[n]
			if pt.block == b.id && (q.phase < b.phase || q.phase == b.phase && q.thread == thread) || pt.block != b.id &&
				k.completed(pt.block) > q.phase {
				n++
				continue
			}
			break
		}
		if n > k.visible(comp) {
			if !own {
				k, own = k.mutable(), true
			}
			k.set(comp, n)
			k.set(v.reader(i), n)
		}
	}
	return k
}
