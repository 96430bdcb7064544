package bootstrap

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// gather is one rank's part of a collective: every rank gets the parts of all. It is a pure state machine;
// collective.go sends and receives for it. testdata/gather*.txt shows it at work.
//
// The collective has steps, and a step has distances. In each step a rank sends a bundle to rank+d for each distance d,
// and receives one from rank-d. There are two schedules:
//
//   - Few ranks have one step with all distances, in which each rank sends its own part to every other. It takes one
//     message's time, and shows each rank which others are missing.
//   - Many ranks have a step for each distance d = 1, 2, 4, … below n (Bruck's all-gather), in which a rank sends its
//     own part and the d-1 before it; in the last step only the missing parts. That is log₂ n messages, not n-1. A part
//     reaches another rank on one path, because a distance is one sum of powers of two in rising order.
//
// A rank that fails sends its reason in place of its later bundles. A rank that needs a part that is lost waits for one
// of these, directly or over others that fail. So all ranks that cannot end fail at once, with the culprit.
type gather struct {
	rank   int
	op     collectiveOp
	direct bool
	// out has the parts that have come, by rank; nil: not yet.
	out [][]byte
	// got counts the parts that have come from each rank that a bundle has begun to come from.
	got map[int]int
}

// A bundle is one or more messages: the op, flags, and parts, each behind its length, u32. A failure is the op,
// flagFails, the kind of the error, the culprit (u32, ^0 for none), and a text.
const (
	flagMore  = 1 // another message of the bundle follows
	flagFails = 2

	bundleBytes = 1 << 20 // a part that would make a message longer begins another one
)

// failureKinds are the errors that a failure may carry, by number.
var failureKinds = []error{errors.New("the collective failed"), ErrPeerDead, ErrClosed, ErrTimeout, ErrProtocol}

func newGather(rank, n int, op collectiveOp, direct bool, data []byte) *gather {
	x := &gather{rank: rank, op: op, direct: direct, out: make([][]byte, n), got: map[int]int{}}
	x.out[rank] = append([]byte{}, data...)
	return x
}

// steps lists the distances of each step.
func (x *gather) steps() (list [][]int) {
	var all []int
	for d := 1; d < len(x.out); d = nextDistance(d, x.direct) {
		if all = append(all, d); !x.direct {
			list = append(list, []int{d})
		}
	}
	if x.direct && len(all) > 0 {
		list = [][]int{all}
	}
	return list
}

// at returns the rank at a distance from this one.
func (x *gather) at(distance int) int { return (x.rank + distance + len(x.out)) % len(x.out) }

// parts is the number of parts of a bundle for a distance.
func (x *gather) parts(distance int) int {
	if x.direct {
		return 1
	}
	return min(distance, len(x.out)-distance)
}

// bundle returns the messages for the rank at a distance: the parts of this rank and of the ranks before it.
func (x *gather) bundle(distance int) (messages [][]byte) {
	message := []byte{byte(x.op), 0}
	for j := range x.parts(distance) {
		part := x.out[x.at(-j)]
		if len(message) > 2 && len(message)+4+len(part) > bundleBytes {
			message[1] = flagMore
			messages = append(messages, message)
			message = []byte{byte(x.op), 0}
		}
		message = binary.LittleEndian.AppendUint32(message, uint32(len(part)))
		message = append(message, part...)
	}
	return append(messages, message)
}

// receive takes a message of the rank at -distance. more: another message of the bundle follows. With an error it
// returns the rank to blame, or -1.
func (x *gather) receive(distance int, message []byte) (more bool, culprit int, err error) {
	from := x.at(-distance)
	switch {
	case len(message) < 2 || collectiveOp(message[0]) != x.op:
		return false, from, errOtherCollective
	case message[1] == flagFails:
		culprit, err = DecodeFailure(message[2:], len(x.out))
		return false, culprit, err
	}
	for b := message[2:]; len(b) > 0; x.got[from]++ {
		length := uint32(0)
		if len(b) >= 4 {
			length = binary.LittleEndian.Uint32(b)
		}
		if x.got[from] == x.parts(distance) || len(b) < 4 || uint64(length) > uint64(len(b)-4) {
			return false, from, fmt.Errorf("%w: a malformed bundle", ErrProtocol)
		}
		x.out[x.at(-distance-x.got[from])] = b[4 : 4+length : 4+length]
		b = b[4+length:]
	}
	if message[1] == flagMore {
		return true, -1, nil
	}
	if want := x.parts(distance); x.got[from] != want {
		return false, from, fmt.Errorf("%w: a bundle of %d parts instead of %d", ErrProtocol, x.got[from], want)
	}
	delete(x.got, from)
	return false, -1, nil
}

// missing lists the ranks whose parts have not come and that are not known to be here.
func (x *gather) missing(here []bool) []int {
	return missingRanks(len(x.out), func(r int) bool { return x.out[r] != nil || here[r] })
}

// EncodeFailure encodes an error and the rank to blame, -1 for none, for another rank.
func EncodeFailure(culprit int, err error) []byte {
	message := []byte{0}
	for i, kind := range failureKinds {
		if errors.Is(err, kind) {
			message[0] = byte(i)
		}
	}
	message = binary.LittleEndian.AppendUint32(message, uint32(int32(culprit)))
	return append(message, err.Error()[:min(len(err.Error()), maxFailureText)]...)
}

// toldError is the failure of another rank.
type toldError struct {
	kind error
	text string
}

func (t *toldError) Error() string { return t.text }
func (t *toldError) Unwrap() error { return t.kind }

// DecodeFailure decodes a failure in a job of n ranks. The error has the kind and the text of the original.
func DecodeFailure(b []byte, n int) (int, error) {
	if len(b) < 5 || int(b[0]) >= len(failureKinds) {
		return -1, fmt.Errorf("%w: a malformed failure", ErrProtocol)
	}
	culprit := int(int32(binary.LittleEndian.Uint32(b[1:])))
	if culprit < -1 || culprit >= n {
		return -1, fmt.Errorf("%w: a failure of rank %d", ErrProtocol, culprit)
	}
	return culprit, &toldError{failureKinds[b[0]], string(b[5:])}
}
