package membership

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sort"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
)

// splitMark is the prefix of the messages of a Split, which tells them from other messages. A random number of each
// rank follows, so that the messages together identify this one call.
const splitMark = "split"

// Colors exchanges the colors and keys of a Split. It returns the ranks of this rank's color, ordered by key, and the
// space of their bootstrap group.
func (j *JointCall) Colors(ctx context.Context, color, key int) (ranks []int, space int, err error) {
	g := j.g
	mine := binary.LittleEndian.AppendUint64([]byte(splitMark), rand.Uint64())
	mine = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(mine, uint64(color)), uint64(key))
	all, err := g.boot.AllGather(ctx, j.mark(mine))
	if err != nil {
		return nil, 0, g.JointError(ctx, "split", err)
	}
	keys := map[int]int{}
	agreed := []byte(splitMark)
	for r, b := range all {
		if len(b) != len(splitMark)+32 || string(b[:len(splitMark)]) != splitMark {
			return nil, 0, g.Fault("split", r, fmt.Errorf("%w: this rank is in Split and the peer in something else: %s",
				fault.ErrMismatch, sameCalls))
		}
		agreed = append(agreed, b...)
		b = b[len(splitMark)+8:]
		j.take(b[16:])
		if int(int64(binary.LittleEndian.Uint64(b))) == color {
			ranks, keys[r] = append(ranks, r), int(int64(binary.LittleEndian.Uint64(b[8:])))
		}
	}
	sort.SliceStable(ranks, func(i, j int) bool { return keys[ranks[i]] < keys[ranks[j]] })
	return ranks, bootstrap.OnceSpace(agreed), nil
}

const sameCalls = "all ranks must make the same calls in the same order"

// growMark is the prefix of the messages of a Grow, which tells them from other messages. The size, the number of the
// call and the id, if this rank has it, follow.
const growMark = "grow"

// AgreeOnID returns the id that one rank has, for a Grow to size ranks.
func (j *JointCall) AgreeOnID(ctx context.Context, size int, id *bootstrap.UniqueID) (
	agreed bootstrap.UniqueID, err error,
) {
	g := j.g
	mine := binary.LittleEndian.AppendUint64([]byte(growMark), uint64(size))
	common := len(mine)
	mine = j.mark(mine)
	length := len(mine)
	if id != nil {
		mine = append(mine, id[:]...)
	}
	all, err := g.boot.AllGather(ctx, mine)
	if err != nil {
		return agreed, g.JointError(ctx, "grow", err)
	}
	from := -1
	for r, b := range all {
		if len(b) < length || string(b[:common]) != string(mine[:common]) {
			return agreed, g.Fault("grow", r, fmt.Errorf("%w: this rank is in Grow to %d ranks and the peer in something else: "+
				"%s", fault.ErrMismatch, size, sameCalls))
		}
		j.take(b[common:])
		if len(b) == length {
			continue
		}
		if from >= 0 {
			return agreed, g.Errorf("grow", fault.ErrInvalidArgument, "ranks %d and %d both have a unique id: one rank "+
				"makes it", from, r)
		}
		if agreed, err = bootstrap.ParseUniqueID(b[length:]); err != nil {
			return agreed, g.Wrap("grow", err)
		}
		from = r
	}
	if from < 0 {
		return agreed, g.Errorf("grow", fault.ErrInvalidArgument, "no rank has a unique id: one makes it and "+
			"passes it to Grow")
	}
	return agreed, nil
}
