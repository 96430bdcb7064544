package goccl

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sort"

	"github.com/goccl/goccl/job/bootstrap"
)

// NoColor excludes a rank from every communicator that Split makes.
const NoColor = -1

// Split makes one new communicator for each color. Its ranks are ordered by key, then by their rank in c. Split is
// collective over c. A rank with NoColor takes part and gets nil. change, if there is one, changes the Config that the
// new communicator gets from c.
//
// If a rank of c dies meanwhile, the other ranks of each color all get their communicator, or all get an error. Where
// the dead rank is a member, some may get the communicator; the next call on it then fails.
func (c *Comm) Split(ctx context.Context, color, key int, change ...func(*Config)) (sub *Comm, err error) {
	if err = c.whole("split"); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	ctx, call := c.beginJoint(ctx, "split")
	defer func() { call.end(err) }()
	if color < NoColor {
		return nil, c.errorf("split", ErrInvalidArgument, "color %d is negative and not NoColor", color)
	}
	cfg, err := c.cfg.changed(change)
	if err != nil {
		return nil, err
	}
	mine := binary.LittleEndian.AppendUint64([]byte(splitMark), rand.Uint64())
	mine = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(mine, uint64(color)), uint64(key))
	mine = call.mark(mine)
	all, err := c.boot.AllGather(ctx, mine)
	if err != nil {
		return nil, c.jointError(ctx, "split", err)
	}
	type member struct{ rank, key int }
	var members []member
	agreed := []byte(splitMark)
	for r, b := range all {
		if len(b) != len(splitMark)+32 || string(b[:len(splitMark)]) != splitMark {
			return nil, &Error{Comm: c.cfg.Name, Op: "split", Rank: c.rank, Peer: r,
				Err: fmt.Errorf("%w: this rank is in Split and the peer in something else: all ranks must make the same calls "+
					"in the same order", ErrMismatch)}
		}
		agreed = append(agreed, b...)
		b = b[len(splitMark)+8:]
		call.take(b[16:])
		if int(int64(binary.LittleEndian.Uint64(b))) == color {
			members = append(members, member{r, int(int64(binary.LittleEndian.Uint64(b[8:])))})
		}
	}
	if color == NoColor {
		return nil, nil
	}
	sort.SliceStable(members, func(i, j int) bool { return members[i].key < members[j].key })
	ranks := make([]int, len(members))
	for i, m := range members {
		ranks[i] = m.rank
	}
	call.joins = true
	sub, err = join(ctx, call.last, "split", cfg, c.boot, ranks, bootstrap.OnceSpace(agreed))
	if err != nil {
		return nil, c.jointError(ctx, "split", err)
	}
	return sub, nil
}

// splitMark is the prefix of the messages of a Split, which tells them from other messages. A random number of each
// rank follows, so that the messages together identify this one call.
const splitMark = "split"
