package record_test

import (
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/watch/record"
)

func run(x *record.Recorder, q *collective.Request, from, to uint64) {
	for n := from; n <= to; n++ {
		x.Enqueued(n, q)
		x.Started(q, n, 1)
		x.Ended(q, n, 1, nil)
	}
}

// Of rapid operations few read the clock. The others have times between the times of their neighbours, in order, are
// marked as sampled, and have the same states.
func TestRapidOperationsShareStamps(t *testing.T) {
	x, s := open(t, record.Options{Entries: 64})
	q := allReduce(s, 1)
	record.Hurry(x)
	begin := record.Now()
	run(x, q, 1, 50)
	x.Enqueued(51, q)
	x.Started(q, 51, 1)
	x.Enqueued(52, q)
	c := x.Snapshot(0)
	end := record.Now()
	if len(c.Operations) != 52 {
		t.Fatalf("%d operations", len(c.Operations))
	}
	var before record.Operation
	for _, o := range c.Operations {
		if exact := o.Number%record.Stride == 0; o.Sampled == exact {
			t.Errorf("#%d: sampled %v", o.Number, o.Sampled)
		}
		switch want := map[uint64]string{51: record.Started, 52: record.Enqueued}[o.Number]; {
		case want == "" && o.State != record.Ended || want != "" && o.State != want:
			t.Errorf("#%d is %s", o.Number, o.State)
		case o.Enqueued < begin-int64(time.Second) || o.Enqueued > end+int64(time.Millisecond):
			t.Errorf("#%d was called %v before the first", o.Number, time.Duration(begin-o.Enqueued))
		case o.State == record.Ended && (o.Started < o.Enqueued || o.Ended < o.Started):
			t.Errorf("#%d: called %d, started %d, ended %d", o.Number, o.Enqueued, o.Started, o.Ended)
		case o.Enqueued < before.Enqueued:
			t.Errorf("#%d was called %v before #%d", o.Number, time.Duration(before.Enqueued-o.Enqueued), before.Number)
		}
		before = o
	}
}

// A pause between rapid operations does not move those before it, and a wait counts from a look that has seen it, never
// from before the call.
func TestAPauseAmongRapidOperations(t *testing.T) {
	x, s := open(t, record.Options{Entries: 64})
	q := allReduce(s, 1)
	record.Hurry(x)
	run(x, q, 1, 18)
	time.Sleep(2 * record.Lookout)
	called := record.Now() - int64(10*time.Millisecond) // ticks are not as exact
	x.Enqueued(19, q)                                   // the monitor has not looked
	x.Started(q, 19, 1)
	time.Sleep(2 * time.Millisecond)
	record.Adopt(x, 19)
	o := x.Find(false, 19)
	if o.Sampled || o.Enqueued < called || o.Started < called || o.State != record.Started {
		t.Errorf("called %v and started %v after the call: %+v", time.Duration(o.Enqueued-called),
			time.Duration(o.Started-called), o)
	}
	record.Pause(x)
	x.Ended(q, 19, 1, nil)
	run(x, q, 20, 24)
	if o = x.Find(false, 18); o.Ended > called-int64(record.Lookout) {
		t.Errorf("what ended before the pause, ended %v before the call after it", time.Duration(called-o.Ended))
	}
}

// The sum of the times of rapid operations is estimated from those that have times; a process that gets no processor
// for a moment may make it larger. One that waited counts once.
func TestTheSumOfRapidOperations(t *testing.T) {
	x, s := open(t, record.Options{Entries: 64})
	q := allReduce(s, 1)
	record.Hurry(x)
	begin := record.Now()
	run(x, q, 1, 100000)
	all := record.Now() - begin
	if sum := x.Snapshot(0).Totals[0].Time; sum <= 0 || sum > 4*all {
		t.Errorf("the operations took %v of %v", time.Duration(sum), time.Duration(all))
	}
	before := x.Snapshot(0).Totals[0].Time
	begin = record.Now()
	x.Enqueued(100008, q)
	x.Started(q, 100008, 1)
	time.Sleep(50 * time.Millisecond)
	x.Ended(q, 100008, 1, nil)
	d, most := time.Duration(x.Snapshot(0).Totals[0].Time-before), time.Duration(4*(record.Now()-begin))
	if d < 40*time.Millisecond || d > most {
		t.Errorf("an operation of 50 ms counts for %v", d)
	}
}

// The monitor finds the pace.
func TestThePaceFollowsTheOperations(t *testing.T) {
	x, s := open(t, record.Options{Entries: 64})
	q := allReduce(s, 1)
	x.Observe(&record.Watch{})
	sampled := func() bool { return x.Find(false, x.Snapshot(1).Collectives).Sampled }
	n := uint64(1)
	for end := time.Now().Add(time.Minute); ; {
		run(x, q, n, n+6)
		if n += 7; n%record.Stride != 1 && sampled() {
			break
		}
		if time.Now().After(end) {
			t.Fatal("each of many operations is stamped")
		}
	}
	for end := time.Now().Add(time.Minute); sampled(); n++ {
		time.Sleep(record.Lookout)
		run(x, q, n, n)
		if time.Now().After(end) {
			t.Fatal("few operations are not stamped")
		}
	}
}
