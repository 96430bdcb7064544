package cudawire

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/transport"
)

// How long the proxy at most polls without pause after it has found something or a phase was enqueued, and the pauses
// between its looks after that: kernels may wait behind other work, and graphs launch kernels without a call.
const (
	mostSpin  = time.Millisecond
	napFor    = 50 * time.Microsecond
	longAfter = time.Second
	longNap   = time.Millisecond
)

// serve is the proxy. It does not call the driver (idler), and holds no lock: the links that it serves are an immutable
// list, which Connect replaces.
//
//  1. For each lane of each link: put what the kernels have posted, in the order of the slots, and send a credit for
//     each half of a ring that they have taken. The acquire of the post makes the slot's bytes visible.
//  2. Poll the network for credits, acknowledgements, and small messages (arrivals). Large messages come on other
//     connections, which have dedicated goroutines.
//  3. If nothing was posted, poll on for some time, then with pauses.
//  4. If no kernel can post, look once more, since the last kernel may have posted after the last look, and wait for
//     the next call of Run.
func (w *Wire) serve() {
	last, spinFor := time.Now(), mostSpin
	if runtime.GOMAXPROCS(0) < 4 {
		spinFor = mostSpin / 20
	}
	in := arrivalsOf(w.port)
	defer in.polling(false)
	for polls := 0; ; polls++ {
		moved := w.progress()
		in.take()
		if w.stopped.Load() {
			return
		}
		if moved {
			last = time.Now()
			continue
		}
		if polls%16 != 0 {
			continue
		}
		idle := time.Since(last)
		switch {
		case w.kicked.Swap(false):
			last = time.Now()
		case idle < spinFor:
			in.polling(true)
			if polls%in.looks() == 0 {
				runtime.Gosched()
			}
		case w.quiet():
			in.polling(false)
			if w.progress() { // what the last kernel posted before it ended
				last = time.Now()
				continue
			}
			select {
			case <-w.wake:
			case <-w.stop:
			}
			last = time.Now()
		case idle < longAfter:
			in.polling(false)
			nap(napFor)
		default:
			nap(longNap)
		}
	}
}

// progress puts what kernels have posted, on all links.
func (w *Wire) progress() (moved bool) {
	for _, l := range *w.links.Load() {
		moved = l.progress() || moved
	}
	return moved
}

// nap suspends the thread: a sleep of the Go runtime may take a millisecond longer.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}

// quiet reports whether no kernel runs or can be launched without a call: then no one posts.
func (w *Wire) quiet() bool { return !w.captured.Load() && w.idler.quiet() && !w.kicked.Load() }

// noKernels asks the driver.
func (w *Wire) noKernels() bool {
	if w.cfg.ended == nil {
		return w.launcher.Idle()
	}
	idle, err := w.cfg.ended()
	return err == nil && idle
}

// progress puts the posted slots, in one system call if the network can. The lanes of a small message are posted within
// a microsecond, so it looks again before it makes the call.
func (l *link) progress() bool {
	defer l.release()
	moved := l.look()
	if moved && !l.full {
		l.look()
	}
	return moved
}

// look puts the posted slots of all lanes. It reports whether there were any.
func (l *link) look() (moved bool) {
	g := &l.w.geo
	for lane := range g.lanes {
		for {
			k := l.put[lane]
			slot := int64(k) % g.slots
			v := l.post[lane*g.slots+slot].Load()
			if uint32(v>>32) != uint32(k/uint64(g.slots)+1) {
				break
			}
			at := (lane*g.slots + slot) * g.slotBytes
			if n := int64(uint32(v)); n > g.slotBytes || !l.send(at, n, g.data(lane, slot)) {
				return moved || l.full
			}
			l.put[lane]++
			moved = true
		}
		for due := l.taken[lane].Load() / g.half(); l.credited[lane] < due; l.credited[lane]++ {
			if !l.send(0, 0, g.credit(lane)) {
				return moved || l.full
			}
			moved = true
		}
	}
	return moved
}

// send puts n bytes of the rings. The peer has read a slot when its credit arrives, which is before the slot is used
// again, so no one waits for the put's own completion.
func (l *link) send(at, n int64, imm uint32) bool {
	if l.batch != nil && !l.held {
		l.batch.Hold()
		l.held = true
	}
	err := l.peer.Put(l.from, at, l.to, at, n, imm, nil)
	if err == nil {
		return true
	}
	if l.full = errors.Is(err, transport.ErrQueueFull); l.full {
		runtime.Gosched() // the next look tries again
	} else {
		l.w.lost(l.rank, err)
	}
	return false
}

// release sends the puts of this look.
func (l *link) release() {
	if l.held {
		l.batch.Release()
		l.held = false
	}
}
