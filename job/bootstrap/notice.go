package bootstrap

import (
	"encoding/binary"
	"fmt"
	"math"
)

// leaveNotice is the notice of a rank that leaves a space. A notice has no room for a text: of a reason it has the kind
// of the error, plus 1, as tag, and the rank to blame, plus 1, as peer.
func leaveNotice(space uint64, reason []byte) notice {
	n := notice{kind: frameLeave, space: space}
	if len(reason) > 0 {
		culprit, _ := DecodeFailure(reason, math.MaxInt)
		n.tag, n.peer = uint64(reason[0])+1, uint32(culprit+1)
	}
	return n
}

// reason undoes leaveNotice.
func (n notice) reason() []byte {
	if n.tag == 0 || n.tag > uint64(len(kinds)) {
		return nil
	}
	return EncodeFailure(int(n.peer)-1, kinds[n.tag-1])
}

// A notice is what a rank of a web tells all others: that it gives up a peer (frameAccuse), that it has closed
// (frameGoodbye) or left a space (frameLeave), or that it is in a collective (frameCollective). It is flooded: a rank
// passes a notice that it has not seen to all its other connections. Each connection keeps the order, so a rank gets no
// notice before those that the sender had seen when it made it.
type notice struct {
	kind       frameKind
	from, peer uint32 // peer: the accused
	space, tag uint64
}

const (
	noticeSize = 28
	// maxNotices is the largest number of notices in one frame.
	maxNotices = 2048
	// A rank knows the latest notices, at least as many, by which it recognizes those that come again.
	knownNotices = 1 << 15
)

func appendNotices(b []byte, list []notice) []byte {
	for _, n := range list {
		b = append(b, byte(n.kind), 0, 0, 0)
		b = binary.LittleEndian.AppendUint32(b, n.from)
		b = binary.LittleEndian.AppendUint32(b, n.peer)
		b = binary.LittleEndian.AppendUint64(b, n.space)
		b = binary.LittleEndian.AppendUint64(b, n.tag)
	}
	return b
}

func decodeNotices(b []byte, size int) (list []notice, err error) {
	if len(b) == 0 || len(b)%noticeSize != 0 || len(b) > maxNotices*noticeSize {
		return nil, fmt.Errorf("%w: notices of %d bytes", ErrProtocol, len(b))
	}
	for ; len(b) > 0; b = b[noticeSize:] {
		n := notice{kind: frameKind(b[0]), from: binary.LittleEndian.Uint32(b[4:]), peer: binary.LittleEndian.Uint32(b[8:]),
			space: binary.LittleEndian.Uint64(b[12:]), tag: binary.LittleEndian.Uint64(b[20:])}
		switch n.kind {
		case frameAccuse, frameGoodbye, frameLeave, frameCollective:
		default:
			return nil, fmt.Errorf("%w: a notice of kind %d", ErrProtocol, n.kind)
		}
		if n.from >= uint32(size) || n.peer > uint32(size) || n.kind == frameAccuse && n.peer == uint32(size) {
			return nil, fmt.Errorf("%w: a notice of ranks %d and %d", ErrProtocol, n.from, n.peer)
		}
		list = append(list, n)
	}
	return list, nil
}

// known is the set of the latest notices, in two generations.
type known struct{ now, before map[notice]struct{} }

// add adds n, and reports whether it is new.
func (k *known) add(n notice) bool {
	if _, ok := k.now[n]; ok {
		return false
	}
	if _, ok := k.before[n]; ok {
		return false
	}
	if len(k.now) >= knownNotices || k.now == nil {
		k.now, k.before = map[notice]struct{}{}, k.now
	}
	k.now[n] = struct{}{}
	return true
}
