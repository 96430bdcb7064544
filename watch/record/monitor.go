package record

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/collective"
)

// monitor looks at all recorders of the process. It runs while there are any.
var monitor struct {
	mu     sync.Mutex
	all    []*Recorder
	stop   chan struct{}
	ended  chan struct{}
	server *server  // nil: none could be opened
	signal *signals // nil: no signal is wanted
}

// lookEvery is the time between two looks; waitsFrom how long an operation runs before its waits are recorded.
const (
	lookEvery   = 100 * time.Millisecond
	waitsFrom   = 200 * time.Millisecond
	sampleAfter = time.Second // of operations on a GPU
)

func register(x *Recorder, o Options) {
	monitor.mu.Lock()
	defer monitor.mu.Unlock()
	if monitor.all = append(monitor.all, x); len(monitor.all) > 1 {
		return
	}
	monitor.stop, monitor.ended = make(chan struct{}), make(chan struct{})
	monitor.server, monitor.signal = listenForReaders(), notify(o.Signal, o.Folder)
	go monitorLoop(monitor.stop, monitor.ended)
}

func unregister(x *Recorder) {
	var last *server
	var old *signals
	defer func() { // without mu: a reader or signal that they handle may wait for mu
		last.close()
		old.close()
	}()
	monitor.mu.Lock()
	defer monitor.mu.Unlock()
	i := slices.Index(monitor.all, x)
	if i < 0 {
		return
	}
	if monitor.all = slices.Delete(monitor.all, i, i+1); len(monitor.all) > 0 {
		return
	}
	close(monitor.stop)
	<-monitor.ended // it does not take mu while it looks
	last, monitor.server, old, monitor.signal = monitor.server, nil, monitor.signal, nil
}

// Recorders lists the recorders of this process.
func Recorders() []*Recorder {
	monitor.mu.Lock()
	defer monitor.mu.Unlock()
	return slices.Clone(monitor.all)
}

func monitorLoop(stop, ended chan struct{}) {
	defer close(ended)
	t := time.Tick(lookEvery)
	for {
		select {
		case <-stop:
			return
		case <-t:
		}
		if monitor.mu.TryLock() { // else somebody opens or closes a communicator: the next look will do
			list := slices.Clone(monitor.all)
			monitor.mu.Unlock()
			for _, x := range list {
				x.look()
			}
		}
	}
}

// Watch says what to do about operations that take long. Its functions are called one at a time, and must not block.
type Watch struct {
	After time.Duration // the least time that is long; an operation that is usually slow has 20 times its usual time
	// Waits lists what the engine waits for now.
	Waits func() []Wait
	// Long is called when an operation has waited for too long, and again each time that the wait has doubled. It
	// returns false if it could not look into it now.
	Long func(o Operation, waited time.Duration) bool
	// Over is called when an operation that Long was called for has ended.
	Over func(o Operation)
	// Passed returns the mark that the GPU has reached, for an engine whose operations are sampled (Recorder.Marked).
	Passed func() (mark uint64, all, ok bool)
	// Window is called every few seconds with the part of the time that the rank has spent in operations.
	Window func(part float64)
}

// watch is the state of one recorder's looks.
type watch struct {
	*Watch
	next   [2]uint64 // all collectives, and messages, before these numbers have ended
	told   [2]uint64 // the operation that Long was called for
	again  time.Duration
	usual  map[usualKey]int64 // nanoseconds
	mark   uint64             // that the GPU had reached at the look at marked
	marked int64
	moved  int64  // when a look found that the GPU, or the rank, had gone on
	waits  []Wait // of the look before, if looked
	looked bool   // while an operation runs
	window int64  // when the latest window began
	busy   uint64 // total ticks at that time
}

// usualKey is a collective and the size class of its count.
type usualKey struct {
	collective string
	class      int
}

// windowsOf is how often After fits into a window of Watch.Window.
const windowsOf = 2

// Observe sets the Watch that handles operations that take long.
func (x *Recorder) Observe(w *Watch) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.watch = watch{Watch: w, usual: map[usualKey]int64{}, window: Now(), next: [2]uint64{1, 1}}
}

func (x *Recorder) look() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || x.watch.Watch == nil {
		return
	}
	c := &own.header().clock
	c.adjust()
	w := &x.watch
	x.pace.set(x.r.latest(false)+x.r.latest(true), Now(), c.rate())
	x.sampleLate()
	waiting := false
	for i, message := range []bool{false, true} {
		x.learn(message, &w.next[i])
		o, since, next := x.unfinished(message, w.next[i], c)
		if w.told[i] != 0 && (next > w.told[i]) {
			told := w.told[i]
			w.told[i] = 0
			e, ok := x.r.operation(message, told, c, nil)
			if ok && w.Over != nil {
				w.Over(e)
			}
		}
		w.next[i] = next
		if o.Number == 0 {
			continue
		}
		if age(since) > waitsFrom && !waiting {
			waiting = true
			_, foreign := collective.ParseCollective(o.Collective) // the engine does not run it
			x.writeWaits(o.State == Started && foreign == nil)
		}
		waited := age(max(since, w.moved))
		limit := max(w.After, 20*time.Duration(w.usual[o.key()]))
		if w.told[i] == o.Number {
			limit = max(limit, w.again)
		}
		if w.After > 0 && waited > limit && w.Long != nil && w.Long(o, waited) {
			w.told[i], w.again = o.Number, 2*waited
		}
	}
	if !waiting {
		w.looked = false
		x.r.waiting.Store(0)
	}
	if d := age(w.window); d > windowsOf*w.After && w.After > 0 && w.Window != nil {
		var busy uint64
		for _, t := range x.r.spent {
			busy += t
		}
		part := float64(busy-w.busy) * c.rate() / float64(d)
		w.window, w.busy = Now(), busy
		w.Window(part)
	}
}

// sampleLate looks at the GPU's progress if an operation may have been there for a while: the look calls the driver.
func (x *Recorder) sampleLate() {
	w := &x.watch
	if w.Passed == nil {
		return
	}
	late := false
	for i, message := range []bool{false, true} {
		o, since, next := x.unfinished(message, w.next[i], &own.header().clock)
		w.next[i] = next
		late = late || o.Number != 0 && age(since) > min(sampleAfter, w.After/2)
	}
	if !late {
		return
	}
	if mark, all, ok := w.Passed(); ok {
		w.progress(mark)
		x.sample(false, w.next[0], mark, all)
		x.sample(true, w.next[1], mark, all)
	}
}

// progress notes that the GPU has gone on since the look before. Then no operation waits for long, although the oldest
// one that the ring still has may have been enqueued long ago, behind more operations than the ring holds.
func (w *watch) progress(mark uint64) {
	now := Now()
	if mark != w.mark && time.Duration(now-w.marked) < 3*lookEvery {
		w.moved = now
	}
	w.mark, w.marked = mark, now
}

// learn samples the operations that have ended, from next on.
func (x *Recorder) learn(message bool, next *uint64) {
	c := &own.header().clock
	last := x.r.latest(message)
	from := max(*next, last-min(last, x.mask, 63)) // a sample is enough
	for n := from; n <= last; n++ {
		o, ok := x.r.operation(message, n, c, nil)
		if !ok || o.Ended == 0 || o.Started == 0 || o.Sampled {
			continue
		}
		x.watch.sample(o.key(), o.Ended-o.Started)
	}
}

// sample moves a usual time towards a sample: down at once, up slowly. A wait for a late peer must not count as usual.
func (w *watch) sample(k usualKey, d int64) {
	if old, ok := w.usual[k]; ok && d > old {
		d = old + old/64 + 1
	}
	w.usual[k] = d
}

func (o *Operation) key() usualKey { return usualKey{o.Collective, bits.Len64(uint64(o.Bytes))} }

// writeWaits stores what the engine waits for. If that has changed since the look before, or an operation of the engine
// runs and waits for nobody, the rank gets on.
func (x *Recorder) writeWaits(started bool) {
	w := &x.watch
	if w.Waits == nil {
		return
	}
	list := w.Waits()
	if started && (len(list) == 0 || w.looked && !slices.Equal(list, w.waits)) {
		w.moved = Now()
	}
	w.waits, w.looked = list, true
	n := min(len(list), mostWaits)
	for i, w := range list[:n] {
		f := max(0, slices.Index(flagNames, w.Flag))
		x.r.waits[i] = wait{uint32(int32(w.Peer)), uint32(f), w.Epoch, w.Have}
	}
	x.r.waiting.Store(uint32(n))
}
