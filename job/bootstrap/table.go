package bootstrap

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/internal/fdshare"
	"github.com/goccl/goccl/internal/plain"
)

// member is a rank's description of itself, in the form that it has on the wire.
type member struct {
	tcp      wireAddr
	unix     socketName
	host     [32]byte // zero: where its unix socket can be reached
	process  [16]byte
	_        [12]byte
	liveness fdshare.Ticket             // zero: no page
	more     [maxMeshAddrs - 1]wireAddr // further TCP addresses; zero: none
}

// maxMeshAddrs bounds the interfaces on which a rank listens.
const maxMeshAddrs = 4

const memberSize = int(unsafe.Sizeof(member{}))

func decodeMember(b []byte) (m member, err error) {
	if len(b) != memberSize {
		return m, fmt.Errorf("%w: a member of %d bytes", ErrProtocol, len(b))
	}
	return plain.Read[member](b), nil
}

// table is sent by the root to all ranks: a random session, which ties the connections to this job, and all members in
// rank order.
type table struct {
	session [16]byte
	members []member
}

func (t *table) encode() []byte {
	b := append([]byte(nil), t.session[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.members)))
	for i := range t.members {
		b = append(b, plain.Bytes(&t.members[i])...)
	}
	return b
}

func decodeTable(b []byte, world int) (t table, err error) {
	if len(b) < 20 || int(binary.LittleEndian.Uint32(b[16:])) != world || len(b) != 20+world*memberSize {
		return t, fmt.Errorf("%w: a table of %d bytes for %d ranks", ErrProtocol, len(b), world)
	}
	copy(t.session[:], b)
	t.members = make([]member, world)
	for i := range t.members {
		t.members[i], _ = decodeMember(b[20+i*memberSize : 20+(i+1)*memberSize])
	}
	return t, nil
}

// encodeHosts encodes each rank's host as u32.
func encodeHosts(hosts []int) []byte {
	b := make([]byte, 0, 4*len(hosts))
	for _, h := range hosts {
		b = binary.LittleEndian.AppendUint32(b, uint32(h))
	}
	return b
}

// decodeHosts also checks that hosts are numbered by first appearance.
func decodeHosts(b []byte, world int) ([]int, error) {
	if len(b)%4 != 0 || len(b)/4 != world { // 4 * world may overflow
		return nil, fmt.Errorf("%w: hosts of %d bytes for %d ranks", ErrProtocol, len(b), world)
	}
	hosts, next := make([]int, world), uint32(0)
	for i := range hosts {
		h := binary.LittleEndian.Uint32(b[4*i:])
		if h > next {
			return nil, fmt.Errorf("%w: rank %d is on host %d, the next is %d", ErrProtocol, i, h, next)
		}
		if h == next {
			next++
		}
		hosts[i] = int(h)
	}
	return hosts, nil
}

// rootStatus tells waiting ranks which ranks are missing, and which rank is in the root's process (-1: unknown or
// none).
type rootStatus struct {
	rootRank int32
	missing  []int // the first of them
	total    int
}

const maxMissing = 16

// giveUpTimeout is the tag of a give-up frame whose reason is a deadline.
const giveUpTimeout = 1

func (s *rootStatus) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(s.rootRank))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.total))
	for _, r := range s.missing[:min(len(s.missing), maxMissing)] {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return b
}

func decodeStatus(b []byte) (s rootStatus, err error) {
	if len(b) < 8 || len(b)%4 != 0 || len(b) > 8+4*maxMissing {
		return s, fmt.Errorf("%w: a status of %d bytes", ErrProtocol, len(b))
	}
	s.rootRank = int32(binary.LittleEndian.Uint32(b))
	s.total = int(binary.LittleEndian.Uint32(b[4:]))
	for b = b[8:]; len(b) > 0; b = b[4:] {
		s.missing = append(s.missing, int(binary.LittleEndian.Uint32(b)))
	}
	return s, nil
}

func (s rootStatus) String() string {
	if s.total > len(s.missing) {
		return fmt.Sprintf("%v and %d more", s.missing, s.total-len(s.missing))
	}
	return fmt.Sprint(s.missing)
}

// rootFailure is the reason why the job did not start: the rank to blame (-1: none), a verdict and a text.
type rootFailure struct {
	peer    int32
	verdict verdict
	text    string
}

const maxFailureText = 512

func (f rootFailure) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(f.peer))
	b = append(b, byte(f.verdict), 0, 0, 0)
	return append(b, f.text[:min(len(f.text), maxFailureText)]...)
}

func decodeFailure(b []byte) (f rootFailure, err error) {
	if len(b) < 8 || len(b) > 8+maxFailureText || verdict(b[4]) >= verdicts {
		return f, fmt.Errorf("%w: a failure of %d bytes", ErrProtocol, len(b))
	}
	f.peer = int32(binary.LittleEndian.Uint32(b))
	f.verdict = verdict(b[4])
	f.text = string(b[8:])
	return f, nil
}
