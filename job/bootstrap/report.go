package bootstrap

import (
	"encoding/binary"
	"fmt"
)

// report is a statement of one rank about itself or a peer, for all ranks of the job. In a sparse overlay a rank passes
// each new report to all its other connections. Every connection keeps the order, so a report never arrives before the
// reports that its author had seen when it wrote it.
type report struct {
	kind       reportKind
	from, peer uint32 // The author, and the rank that a reportDeath is about.
	space, tag uint64 // The group that a reportLeave or reportWaiting is about, and the number of the collective.
	reason     string // Why the author of a reportLeave gives up (EncodeFailure); empty: it has finished.
}

type reportKind uint8

const (
	reportDeath   reportKind = iota + 1 // The author has lost its connection with peer and gives it up.
	reportGoodbye                       // The author has closed its bootstrap.
	reportLeave                         // The author has left the group of space.
	reportWaiting                       // The author has long been in collective tag of space.
	reportKinds
)

const (
	reportSize = 28 // A report without its reason.
	maxReason  = 5 + maxFailureText
	// maxReports is the largest number of reports in one frame.
	maxReports = 2048
	// knownReports is the least number of recent reports that are remembered to drop duplicates.
	knownReports = 1 << 15
)

func appendReports(b []byte, list []report) []byte {
	for _, r := range list {
		b = append(b, byte(r.kind), 0)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(r.reason)))
		b = binary.LittleEndian.AppendUint32(b, r.from)
		b = binary.LittleEndian.AppendUint32(b, r.peer)
		b = binary.LittleEndian.AppendUint64(b, r.space)
		b = binary.LittleEndian.AppendUint64(b, r.tag)
		b = append(b, r.reason...)
	}
	return b
}

func decodeReports(b []byte, size int) (list []report, err error) {
	for first := true; first || len(b) > 0; first = false {
		if len(b) < reportSize || len(list) == maxReports {
			return nil, fmt.Errorf("%w: %d bytes of reports after %d", ErrProtocol, len(b), len(list))
		}
		r := report{kind: reportKind(b[0]), from: binary.LittleEndian.Uint32(b[4:]), peer: binary.LittleEndian.Uint32(b[8:]),
			space: binary.LittleEndian.Uint64(b[12:]), tag: binary.LittleEndian.Uint64(b[20:])}
		reason := int(binary.LittleEndian.Uint16(b[2:]))
		if b = b[reportSize:]; reason > len(b) || reason > maxReason || reason > 0 && r.kind != reportLeave {
			return nil, fmt.Errorf("%w: a report with a reason of %d bytes", ErrProtocol, reason)
		}
		r.reason, b = string(b[:reason]), b[reason:]
		if r.kind == 0 || r.kind >= reportKinds {
			return nil, fmt.Errorf("%w: a report of kind %d", ErrProtocol, r.kind)
		}
		if r.from >= uint32(size) || r.peer >= uint32(size) {
			return nil, fmt.Errorf("%w: a report of ranks %d and %d", ErrProtocol, r.from, r.peer)
		}
		list = append(list, r)
	}
	return list, nil
}

// knownSet is the set of the latest reports. It has two generations: when the new one is full, the old one is dropped.
type knownSet struct{ recent, older map[report]struct{} }

// add adds r and returns true if it is new.
func (k *knownSet) add(r report) bool {
	_, recent := k.recent[r]
	if _, older := k.older[r]; recent || older {
		return false
	}
	if len(k.recent) >= knownReports || k.recent == nil {
		k.recent, k.older = map[report]struct{}{}, k.recent
	}
	k.recent[r] = struct{}{}
	return true
}
