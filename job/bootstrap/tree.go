package bootstrap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// A large job joins over a tree, so that no process needs a descriptor for each rank. A rank that has sent its
// addresses gets a parent from the root (frameParent), connects to it, says so (frameAttached), and its connection to
// the root ends. Only a rank that has said so becomes a parent. The root keeps the first treeWidth ranks.
const treeWidth = 16

// rootTree is the root's view of the tree; the root's lock guards it.
type rootTree struct {
	session [16]byte
	waiting []*rootMember // without a parent
	free    []freePlace   // in the order of becoming a parent
}

type freePlace struct {
	parent *rootMember // nil: the root
	places int
}

// errDetached ends the service of a connection that is no longer needed.
var errDetached = errors.New("detached")

// place gives parents to the ranks that wait for one, as long as there are places.
func (r *root) place() {
	t := &r.tree
	for len(t.waiting) > 0 && len(t.free) > 0 {
		m, p := t.waiting[0], &t.free[0]
		t.waiting = t.waiting[1:]
		m.parent = p.parent
		way := treeParent{session: t.session, rank: -1}
		if p.parent != nil {
			way.rank, way.member = p.parent.rank, *p.parent.info
		}
		if p.places--; p.places == 0 {
			t.free = t.free[1:]
		}
		r.tell(m, frameParent, way.encode())
	}
}

// attach records that a rank is connected to its parent.
func (r *root) attach(m *rootMember) error {
	m.attached = true
	r.tree.free = append(r.tree.free, freePlace{m, treeWidth})
	r.place()
	if m.parent == nil {
		r.startMesh()
		return nil
	}
	m.fc = nil
	r.startMesh()
	return errDetached
}

// treeParent tells a rank its parent (rank -1: the root) and the session of the job.
type treeParent struct {
	session [16]byte
	rank    int
	member  member
}

func (p *treeParent) encode() []byte {
	b := append([]byte(nil), p.session[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(int32(p.rank)))
	return p.member.append(b)
}

func decodeParent(b []byte, world int) (p treeParent, err error) {
	if len(b) != 20+memberSize {
		return p, fmt.Errorf("%w: a parent of %d bytes", ErrProtocol, len(b))
	}
	copy(p.session[:], b)
	p.rank = int(int32(binary.LittleEndian.Uint32(b[16:])))
	if p.rank < -1 || p.rank >= world {
		return p, fmt.Errorf("%w: rank %d as a parent", ErrProtocol, p.rank)
	}
	p.member, err = decodeMember(b[20:])
	return p, err
}

// isTree reports whether the job joins over a tree.
func (r *root) isTree() bool { return r.world >= r.c.webFrom }

// mostArriving bounds the connections of ranks that are getting a parent.
const mostArriving = 32

// room waits for a moment while too many ranks are getting a parent.
func (r *root) room() {
	for end := time.Now().Add(acceptPause); time.Now().Before(end); time.Sleep(time.Millisecond) {
		arriving := 0
		r.mu.Lock()
		if r.isTree() && r.phase == phaseJoin {
			for _, m := range r.members {
				if m.fc != nil && !m.attached {
					arriving++
				}
			}
		}
		r.mu.Unlock()
		if arriving < mostArriving {
			return
		}
	}
}
