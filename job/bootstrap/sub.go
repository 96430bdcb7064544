package bootstrap

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/goccl/goccl/internal/tags"
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
		return nil, fail("Sub", g.rank, -1, fmt.Errorf("%w: rank %d is not in %v; only the ranks listed call Sub", ErrInvalid,
			g.rank, ranks))
	}
	if g.isClosed() {
		return nil, fail("Sub", g.rank, -1, ErrClosed)
	}
	sub, err := newGroup(g.e, g.subSpace(members, tagSpace), members)
	if err != nil {
		return nil, fail("Sub", g.rank, -1, err)
	}
	sub.above, sub.aboveRanks = g, slices.Clone(ranks)
	NameAsAbove(sub, true)
	if _, err := sub.exchange(ctx, opSub, nil); err != nil {
		sub.giveUp(sub.failure(err))
		_ = sub.Close()
		return nil, err
	}
	NameAsAbove(sub, false)
	return sub, nil
}

// OnceSpace returns the tagSpace for one call of Sub. agreed is data that the listed ranks have agreed on and that no
// other call uses, for example random bytes of all of them. So different calls never mix, however often each rank has
// called Sub before.
func OnceSpace(agreed []byte) int {
	sum := sha256.Sum256(agreed)
	return int(binary.LittleEndian.Uint64(sum[:])>>2 | tags.SpaceUsedOnce)
}

// subSpace derives the space without communication: the members agree on the parent, the list, the tagSpace and the
// number of earlier calls with these. A failed attempt counts too, on every member, because each counts its own calls.
func (g *group) subSpace(members []int, tagSpace int) uint64 {
	buf := binary.LittleEndian.AppendUint64(nil, g.space)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(tagSpace))
	for _, m := range members {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(m))
	}
	if tagSpace < tags.SpaceUsedOnce {
		g.subMu.Lock()
		nth := g.subs[string(buf)]
		g.subs[string(buf)]++
		g.subMu.Unlock()
		buf = binary.LittleEndian.AppendUint64(buf, nth)
	}
	sum := sha256.Sum256(buf)
	// Space 0 belongs to the whole job.
	return binary.LittleEndian.Uint64(sum[:]) | 1
}

func (g *group) isClosed() bool { return g.obituaries.closed() }
