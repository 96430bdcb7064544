package bootstrap

import (
	"context"
	"sync"
)

// broadcast sends to every member. Members in the root's own process come last, because after it they may end the
// process. A large table may block until the member reads it, because it exceeds the socket buffer; so each large frame
// is sent by its own goroutine.
func (r *root) broadcast(kind frameKind, data []byte) {
	var own []*rootMember
	var others sync.WaitGroup
	large := len(data) > 4<<10
	for _, m := range r.members {
		switch {
		case m.fc == nil:
		case m.info != nil && m.info.process == r.process:
			own = append(own, m)
		case large:
			others.Add(1)
			r.wg.Go(func() {
				defer others.Done()
				r.tell(m, kind, data)
			})
		default:
			r.tell(m, kind, data)
		}
	}
	tellOwn := func() {
		others.Wait()
		for _, m := range own {
			r.tell(m, kind, data)
		}
	}
	if large {
		r.wg.Go(tellOwn)
	} else {
		tellOwn()
	}
}

func (r *root) tell(m *rootMember, kind frameKind, data []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), r.c.timeout)
	defer cancel()
	_ = m.fc.write(ctx, kind, 0, 0, data) // the connection's reader detects a broken connection
}

func (r *root) sendStatus() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == phaseOver || len(r.members) == 0 {
		return
	}
	s := rootStatus{rootRank: int32(r.rank), missing: r.missing()}
	s.total = len(s.missing)
	data := s.encode()
	for _, m := range r.members {
		if m.info != nil && m.fc != nil {
			r.tell(m, frameStatus, data)
		}
	}
}

// startMesh sends the table when all ranks are there.
func (r *root) startMesh() {
	for i := range r.world {
		if o := r.members[i]; o == nil || o.info == nil || r.isTree() && !o.attached {
			return
		}
	}
	r.phase = phaseMesh
	r.acceptor.shut()
	t := table{session: r.tree.session, members: make([]member, r.world)}
	for i := range t.members {
		t.members[i] = *r.members[i].info
	}
	r.broadcast(frameTable, t.encode())
}
