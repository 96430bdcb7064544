package bootstrap

import (
	"sync"
	"time"
)

// lateError is the error that a root that failed before all ranks joined sends to ranks that come later. Without it
// they would only find that the address refuses connections.
//
// The root serves it until every rank of the job has got it, at most for lateErrorLife; UniqueID.Close ends it, too. A
// root at an agreed address serves no late error: the next attempt may need that address, and its ranks must not get
// this failure.
type lateError struct {
	text []byte        // the failure, encoded; nil: none. The root's lock guards text and told
	told map[int]bool  // late ranks that have got the text
	all  chan struct{} // closed when every rank has got it
	once *sync.Once
	quit chan struct{} // closed by close
}

const lateErrorLife = 30 * time.Second

func newLateError() lateError {
	return lateError{told: map[int]bool{}, all: make(chan struct{}), once: &sync.Once{}, quit: make(chan struct{})}
}

func (e *lateError) close() { e.once.Do(func() { close(e.quit) }) }

// serveLateError serves the late error. It returns when it is no longer needed.
func (r *root) serveLateError() {
	r.mu.Lock()
	open := r.lateError.text != nil && r.world > 0 && r.untold() > 0
	r.mu.Unlock()
	if !open {
		return
	}
	timer := time.NewTimer(min(r.c.lateLife, r.c.rootLife))
	defer timer.Stop()
	select {
	case <-r.lateError.all:
	case <-r.lateError.quit:
	case <-timer.C:
	}
}

// untold counts the ranks that had not joined when the job failed and have not got the late error since. The caller
// holds mu.
func (r *root) untold() int {
	n := 0
	for rank := range r.world {
		if m := r.members[rank]; (m == nil || m.fc == nil && !m.attached) && !r.lateError.told[rank] {
			n++
		}
	}
	return n
}

// read sends the late error to a late rank and waits until the rank hangs up. Hanging up first could destroy unread
// data.
func (r *root) read(fc *frameConn, rank int) {
	defer fc.close()
	r.tell(&rootMember{rank: rank, fc: fc}, frameFail, r.lateError.text)
	_ = fc.c.SetReadDeadline(time.Now().Add(rootLinger))
	for {
		if _, _, err := fc.read(); err != nil {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.untold(); before > 0 {
		r.lateError.told[rank] = true
		if r.untold() == 0 {
			close(r.lateError.all)
		}
	}
}
