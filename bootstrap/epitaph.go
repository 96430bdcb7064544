package bootstrap

import (
	"sync"
	"time"
)

// epitaph is what a root that failed before all ranks came says to those who come late. Without it they would learn only that nobody listens.
//
// It stays until every rank of the job has been told, at most epitaphLife, and ends with UniqueID.Close. A root at an address that was agreed
// upon leaves none: the next attempt may want that address, and its ranks must not hear of this one.
type epitaph struct {
	text []byte        // the failure, encoded; nil: none. Guarded by the root's lock, as is told
	told map[int]bool  // late ranks
	all  chan struct{} // closed when nobody is left to tell
	once *sync.Once
	quit chan struct{} // closed by close
}

const epitaphLife = 30 * time.Second

func newEpitaph() epitaph {
	return epitaph{told: map[int]bool{}, all: make(chan struct{}), once: &sync.Once{}, quit: make(chan struct{})}
}

func (e *epitaph) close() { e.once.Do(func() { close(e.quit) }) }

// mourn returns when nothing is left to tell.
func (r *root) mourn() {
	r.mu.Lock()
	open := r.epitaph.text != nil && r.world > 0 && r.untold() > 0
	r.mu.Unlock()
	if !open {
		return
	}
	timer := time.NewTimer(min(epitaphLife, r.c.rootLife))
	defer timer.Stop()
	select {
	case <-r.epitaph.all:
	case <-r.epitaph.quit:
	case <-timer.C:
	}
}

// untold counts the ranks that neither were there when the job failed nor came since. It is called under mu.
func (r *root) untold() int {
	n := 0
	for rank := range r.world {
		if m := r.members[rank]; (m == nil || m.fc == nil) && !r.epitaph.told[rank] {
			n++
		}
	}
	return n
}

// read lets a late rank read the epitaph and waits until it hangs up: hanging up first could destroy what it has not read.
func (r *root) read(fc *frameConn, rank int) {
	defer fc.close()
	r.tell(&rootMember{rank: rank, fc: fc}, frameFail, r.epitaph.text)
	_ = fc.c.SetReadDeadline(time.Now().Add(rootLinger))
	for {
		if _, _, err := fc.read(); err != nil {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.untold(); before > 0 {
		r.epitaph.told[rank] = true
		if r.untold() == 0 {
			close(r.epitaph.all)
		}
	}
}
