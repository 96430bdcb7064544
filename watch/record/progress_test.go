package record_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/watch/record"
)

// More operations are queued on a GPU than the ring holds. While the GPU gets on, the oldest one that the ring has does
// not wait, although it was enqueued long ago; when the GPU stops, it does.
func TestQueueLongerThanTheRing(t *testing.T) {
	const after, queued = 300 * time.Millisecond, 10_000
	x, s := open(t, record.Options{Entries: 32})
	var mark atomic.Uint64
	var stopped atomic.Bool
	alarms := make(chan bool, 1)
	x.Observe(&record.Watch{
		After: after,
		Passed: func() (uint64, bool, bool) {
			if stopped.Load() {
				return mark.Load(), false, true
			}
			return mark.Add(1), false, true
		},
		Long: func(record.Operation, time.Duration) bool {
			select {
			case alarms <- stopped.Load():
			default:
			}
			return true
		},
	})
	r := allReduce(s, 256)
	for n := uint64(1); n <= queued; n++ {
		x.Enqueued(n, r)
		x.Marked(r, n, 1, n, false)
	}
	select {
	case <-alarms:
		t.Fatal("an alarm while the GPU gets on")
	case <-time.After(4 * after):
	}
	stopped.Store(true)
	select {
	case <-alarms:
	case <-time.After(time.Minute):
		t.Fatal("no alarm although the GPU has stopped")
	}
}
