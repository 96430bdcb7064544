package bootstrap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// relayFrom is the number of ranks from which the collectives of a group go over relays. Fewer ranks send to each
// other, which takes one step and shows each rank which others are missing.
const relayFrom = 64

// relay is a collective of a large group. A rank sends log₂ n bundles, not n-1 messages (Bruck's all-gather).
//
//  1. For d = 1, 2, 4, … below n: send the parts of this rank and of the d-1 before it to rank+d, and receive from
//     rank-d those of that rank and of the d-1 before it. Of the last step only what is missing. A part reaches
//     another rank on one path: the distance is a sum of powers of two, in rising order.
//  2. A rank that fails sends its reason in place of its later bundles. Whoever needs a part that is lost waits for
//     one of these, directly or over others that fail: so all ranks that cannot end fail at once, with the culprit.
//  3. A rank that has waited for long (callAfter, or a quarter of its time) tells all members that it is there. No rank
//     ends while one is missing. So at the deadline all know exactly which ranks have not come.
type relay struct {
	g   *group
	op  collectiveOp
	tag uint64
	out [][]byte // the parts, by rank
	// called says that this rank has called all members.
	called bool
}

// A bundle is one or more messages: the op, flags, and parts, each behind its length, u32. A failure is the op,
// flagFails, the kind of the error, the culprit, u32, and a text; the
// culprit is nobody for ^0.
const (
	flagMore  = 1 // another message of the bundle follows
	flagFails = 2

	bundleBytes = 1 << 20 // a message is sent when it has as many
	callTag     = 1 << 63 // of calls, which carry the number of the collective
	callAfter   = 5 * time.Second
)

// kinds are the errors that a failure may carry, by number.
var kinds = []error{errors.New("the collective failed"), ErrPeerDead, ErrClosed, ErrTimeout, ErrProtocol}

func (g *group) relay(ctx context.Context, op collectiveOp, tag uint64, data []byte) ([][]byte, error) {
	n := len(g.members)
	x := &relay{g: g, op: op, tag: tag, out: make([][]byte, n)}
	x.out[g.rank] = append([]byte{}, data...)
	for d := 1; d < n; d *= 2 {
		to, from, parts := (g.rank+d)%n, (g.rank-d+n)%n, min(d, n-d)
		culprit, err := to, x.send(ctx, to, parts)
		if err == nil {
			culprit, err = x.receive(ctx, from, parts)
		}
		if err != nil {
			err = x.explain(ctx, culprit, err)
			x.warn(2*d, err)
			return nil, err
		}
	}
	if x.called {
		x.answers() // those that have come are not kept
	}
	return x.out, nil
}

// send sends the parts of this rank and of those before it.
func (x *relay) send(ctx context.Context, to, parts int) error {
	n := len(x.out)
	message := []byte{byte(x.op), 0}
	put := func() error {
		return x.g.e.send(ctx, frameCollective, x.g.members[to], x.g.space, x.tag, message)
	}
	for j := range parts {
		part := x.out[(x.g.rank-j+n)%n]
		if len(message) > 2 && len(message)+4+len(part) > bundleBytes {
			message[1] = flagMore
			if err := put(); err != nil {
				return err
			}
			message = []byte{byte(x.op), 0}
		}
		message = binary.LittleEndian.AppendUint32(message, uint32(len(part)))
		message = append(message, part...)
	}
	return put()
}

// receive takes the bundle of a rank. With an error it returns the rank to blame, or -1.
func (x *relay) receive(ctx context.Context, from, parts int) (culprit int, err error) {
	n, j := len(x.out), 0
	for more := true; more; {
		message, err := x.next(ctx, from)
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, contextError(ctx)):
			return -1, err
		case err != nil:
			return from, err
		case len(message) < 2 || collectiveOp(message[0]) != x.op:
			return from, errOtherCollective
		case message[1] == flagFails:
			return DecodeFailure(message[2:], n)
		}
		more = message[1] == flagMore
		for b := message[2:]; len(b) > 0; j++ {
			length := uint32(0)
			if len(b) >= 4 {
				length = binary.LittleEndian.Uint32(b)
			}
			if j == parts || len(b) < 4 || uint64(length) > uint64(len(b)-4) {
				return from, fmt.Errorf("%w: a malformed bundle", ErrProtocol)
			}
			x.out[(from-j+n)%n] = b[4 : 4+length : 4+length]
			b = b[4+length:]
		}
	}
	if j != parts {
		return from, fmt.Errorf("%w: a bundle of %d parts instead of %d", ErrProtocol, j, parts)
	}
	return -1, nil
}

// next waits for a message. After some time it calls.
func (x *relay) next(ctx context.Context, from int) (message []byte, err error) {
	keys := [1]key{{x.g.members[from], frameCollective, x.g.space, x.tag}}
	wait := func(ctx context.Context) error {
		_, err := x.g.e.box.collect(ctx, keys[:], func(_ int, data []byte) { message = data })
		return err
	}
	if !x.called {
		patience := callAfter
		if end, ok := ctx.Deadline(); ok {
			patience = min(patience, time.Until(end)/4)
		}
		short, cancel := context.WithTimeout(ctx, patience)
		err = wait(short)
		cancel()
		if err == nil || short.Err() == nil || ctx.Err() != nil {
			return message, err
		}
		x.called = true
		if x.g.e.spread != nil {
			x.g.e.spread(ctx, notice{kind: frameCollective, space: x.g.space, tag: x.tag})
			return message, wait(ctx)
		}
		for i := 1; i < len(x.out); i++ {
			m := x.g.members[(x.g.rank+i)%len(x.out)]
			_ = x.g.e.send(ctx, frameCollective, m, x.g.space, callTag, binary.LittleEndian.AppendUint64(nil, x.tag))
		}
	}
	return message, wait(ctx)
}

// answers takes the calls that have come, and returns the ranks that have called this collective or a later one.
func (x *relay) answers() []bool {
	here := make([]bool, len(x.out))
	b := x.g.e.box
	b.mu.Lock()
	defer b.mu.Unlock()
	for r, m := range x.g.members {
		for {
			data, ok := b.pop(key{m, frameCollective, x.g.space, callTag})
			if !ok {
				break
			}
			here[r] = here[r] || len(data) == 8 && binary.LittleEndian.Uint64(data) >= x.tag
		}
	}
	return here
}

// explain makes the error of this rank.
func (x *relay) explain(ctx context.Context, culprit int, err error) error {
	var told *toldError
	switch {
	case errors.As(err, &told):
		if culprit < 0 || !errors.Is(err, ErrPeerDead) {
			return x.g.fail(x.op.String(), culprit, err)
		}
	case culprit < 0 && ctx.Err() != nil:
		here := x.answers()
		missing := missingRanks(len(x.out), func(r int) bool { return x.out[r] != nil || here[r] })
		return x.g.fail(x.op.String(), late(missing, err),
			fmt.Errorf("%w; still waiting for ranks %s", err, rankList(x.g.names(missing))))
	}
	return x.g.culprit(x.op, culprit, err)
}

// warn sends the failure in place of the bundles of the steps from d on.
func (x *relay) warn(d int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	message := append([]byte{byte(x.op), flagFails}, x.g.failure(err)...)
	for ; d < len(x.out); d *= 2 {
		to := x.g.members[(x.g.rank+d)%len(x.out)]
		_ = x.g.e.send(ctx, frameCollective, to, x.g.space, x.tag, message)
	}
}

// failure encodes an error of this rank, whose Peer is to blame.
func (g *group) failure(err error) []byte {
	culprit := -1
	var e *Error
	if errors.As(err, &e) {
		for r := range g.members {
			if g.name(r) == e.Peer {
				culprit = r
			}
		}
		err = e.Err
	}
	return EncodeFailure(culprit, err)
}

// EncodeFailure encodes an error and the rank to blame, -1 for none, for another rank.
func EncodeFailure(culprit int, err error) []byte {
	message := []byte{0}
	for i, kind := range kinds {
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
	if len(b) < 5 || int(b[0]) >= len(kinds) {
		return -1, fmt.Errorf("%w: a malformed failure", ErrProtocol)
	}
	culprit := int(int32(binary.LittleEndian.Uint32(b[1:])))
	if culprit < -1 || culprit >= n {
		return -1, fmt.Errorf("%w: a failure of rank %d", ErrProtocol, culprit)
	}
	return culprit, &toldError{kinds[b[0]], string(b[5:])}
}
