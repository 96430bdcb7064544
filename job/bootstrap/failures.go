package bootstrap

import (
	"slices"
	"sync"
)

// obituaries holds the known deaths of a group and the subscribers.
type obituaries struct {
	mu    sync.Mutex
	size  int           // of the group
	known []PeerFailure // in the order of detection
	subs  []chan PeerFailure
	ended bool
}

// subscribe makes a channel with room for every member once, so that sending never blocks, and sends the known deaths.
func (o *obituaries) subscribe() chan PeerFailure {
	ch := make(chan PeerFailure, o.size)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.known {
		ch <- f
	}
	if o.ended {
		close(ch)
		return ch
	}
	o.subs = append(o.subs, ch)
	return ch
}

// report sends a death to every subscriber. Each member is reported at most once.
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

// cancel closes and removes one subscription. It ignores a channel that is not a subscription.
func (o *obituaries) cancel(ch <-chan PeerFailure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.IndexFunc(o.subs, func(c chan PeerFailure) bool { return c == ch }); i >= 0 {
		close(o.subs[i])
		o.subs = slices.Delete(o.subs, i, i+1)
	}
}

// close ends all subscriptions. It returns false if that was done before.
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

// StopFailures ends a subscription that b.Failures returned: it closes ch and b forgets it. A caller that subscribes
// repeatedly must call it, or the subscriptions accumulate until b is closed. It ignores a Bootstrap of another package
// without this feature.
func StopFailures(b Bootstrap, ch <-chan PeerFailure) {
	if g := groupOf(b); g != nil {
		g.obituaries.cancel(ch)
	}
}
