package bootstrap

import (
	"slices"
	"sync"
)

// obituaries is what a group knows of its dead, and who listens.
type obituaries struct {
	mu    sync.Mutex
	size  int           // of the group
	known []PeerFailure // in the order in which the deaths were noticed
	subs  []chan PeerFailure
	ended bool
}

// subscribe makes a channel with room for every member once, so that nobody ever waits for its reader, and replays what is known.
func (o *obituaries) subscribe() chan PeerFailure {
	ch := make(chan PeerFailure, o.size)
	o.adopt(ch)
	return ch
}

// adopt makes ch, which is empty and has room for every member, a subscription.
func (o *obituaries) adopt(ch chan PeerFailure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.known {
		ch <- f
	}
	if o.ended {
		close(ch)
		return
	}
	o.subs = append(o.subs, ch)
}

// report tells every subscriber of a death. Each member is reported at most once.
func (o *obituaries) report(f PeerFailure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	o.known = append(o.known, f)
	for _, ch := range o.subs {
		ch <- f
	}
}

// cancel closes and forgets one subscription. A channel that is not one is left alone.
func (o *obituaries) cancel(ch <-chan PeerFailure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.IndexFunc(o.subs, func(c chan PeerFailure) bool { return c == ch }); i >= 0 {
		close(o.subs[i])
		o.subs = slices.Delete(o.subs, i, i+1)
	}
}

// close ends all subscriptions; false when that has been done.
func (o *obituaries) close() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return false
	}
	o.ended = true
	for _, ch := range o.subs {
		close(ch)
	}
	o.subs = nil
	return true
}

func (o *obituaries) closed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// StopFailures ends a subscription that b.Failures returned: ch is closed and b forgets it. Whoever subscribes more often than once in b's
// life calls it, or the subscriptions add up until b is closed. A Bootstrap of another package that has no such thing is left alone.
func StopFailures(b Bootstrap, ch <-chan PeerFailure) {
	if s, ok := b.(interface{ stopFailures(<-chan PeerFailure) }); ok {
		s.stopFailures(ch)
	}
}
