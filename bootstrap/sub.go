package bootstrap

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

func (g *group) Sub(ctx context.Context, ranks []int, tagSpace int) (Bootstrap, error) {
	members := make([]int, len(ranks))
	for i, r := range ranks {
		m, err := g.peer("Sub", r)
		if err != nil {
			return nil, err
		}
		if slices.Contains(ranks[:i], r) {
			return nil, fail("Sub", g.rank, -1, fmt.Errorf("%w: rank %d is listed twice", ErrInvalid, r))
		}
		members[i] = m
	}
	if !slices.Contains(ranks, g.rank) {
		return nil, fail("Sub", g.rank, -1, fmt.Errorf("%w: rank %d is not in %v; only the ranks listed call Sub", ErrInvalid, g.rank, ranks))
	}
	if g.isClosed() {
		return nil, fail("Sub", g.rank, -1, ErrClosed)
	}
	sub, err := newGroup(g.e, g.subSpace(members, tagSpace), members)
	if err != nil {
		return nil, fail("Sub", g.rank, -1, err)
	}
	NameAs(sub, ranks)
	if _, err := sub.exchange(ctx, opSub, nil); err != nil {
		_ = sub.Close()
		return nil, err
	}
	NameAs(sub, nil)
	return sub, nil
}

// OnceSpace is the tagSpace of one call of Sub, made of bytes that the ranks listed have agreed upon and that are in no other call, as random ones of
// all of them are. So calls that differ in anything never meet, however often each rank has called Sub before.
func OnceSpace(agreed []byte) int {
	sum := sha256.Sum256(agreed)
	return int(binary.LittleEndian.Uint64(sum[:])>>2 | onceBit)
}

const onceBit = 1 << 62 // of a tagSpace that OnceSpace made

// subSpace derives the space without talking: members agree on the parent, the list, the tagSpace and how often they did this before.
// A failed attempt counts too, on every member, because each counts its own calls.
func (g *group) subSpace(members []int, tagSpace int) uint64 {
	buf := binary.LittleEndian.AppendUint64(nil, g.space)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(tagSpace))
	for _, m := range members {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(m))
	}
	if tagSpace < onceBit {
		g.subMu.Lock()
		nth := g.subs[string(buf)]
		g.subs[string(buf)]++
		g.subMu.Unlock()
		buf = binary.LittleEndian.AppendUint64(buf, nth)
	}
	sum := sha256.Sum256(buf)
	// Space 0 is the whole job's.
	return binary.LittleEndian.Uint64(sum[:]) | 1
}

func (g *group) isClosed() bool { return g.obituaries.closed() }
