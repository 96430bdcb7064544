package goccl

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
)

// NoColor excludes a rank from every communicator that Split makes.
const NoColor = -1

// Split makes new communicators, one for each color; ranks are ordered by key, then by their rank here. It is collective over c. A rank with
// NoColor takes part and gets nil.
func (c *Comm) Split(ctx context.Context, color, key int) (*Comm, error) {
	if color < NoColor {
		return nil, c.errorf("split", ErrInvalidArgument, "color %d is negative and not NoColor", color)
	}
	if err := c.whole("split"); err != nil {
		return nil, err
	}
	bounded, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	bounded, stop2 := c.fate.bound(bounded)
	defer stop2()
	mine := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(color)), uint64(key))
	all, err := c.boot.AllGather(bounded, mine)
	if err != nil {
		return nil, c.ended("split", err)
	}
	if color == NoColor {
		return nil, nil
	}
	type member struct{ rank, key int }
	var members []member
	for r, b := range all {
		if len(b) != 16 {
			return nil, &Error{Op: "split", Rank: c.rank, Peer: r, Err: fmt.Errorf("%w: rank %d sent %d bytes", ErrMismatch, r, len(b))}
		}
		if int(int64(binary.LittleEndian.Uint64(b))) == color {
			members = append(members, member{r, int(int64(binary.LittleEndian.Uint64(b[8:])))})
		}
	}
	sort.SliceStable(members, func(i, j int) bool { return members[i].key < members[j].key })
	ranks := make([]int, len(members))
	for i, m := range members {
		ranks[i] = m.rank
	}
	return join(ctx, "split", c.cfg, c.boot, ranks)
}

// Shrink makes a communicator without the ranks in exclude, also after they have died. Only the ranks that stay call it, all with the same
// exclude. With abort, running work is ended first.
func (c *Comm) Shrink(ctx context.Context, exclude []int, abort bool) (*Comm, error) {
	if c.closed.Load() {
		return nil, &Error{Op: "shrink", Rank: c.rank, Peer: -1, Err: ErrClosed}
	}
	for _, r := range exclude {
		if r < 0 || r >= c.size {
			return nil, c.errorf("shrink", ErrInvalidArgument, "rank %d to exclude is outside 0…%d", r, c.size-1)
		}
	}
	if slices.Contains(exclude, c.rank) {
		return nil, c.errorf("shrink", ErrInvalidArgument, "an excluded rank must not call Shrink")
	}
	var ranks []int
	for r := range c.size {
		if !slices.Contains(exclude, r) {
			ranks = append(ranks, r)
		}
	}
	if len(ranks) == c.size {
		return nil, c.errorf("shrink", ErrInvalidArgument, "no rank to exclude")
	}
	if abort {
		c.Abort(nil)
	}
	return join(ctx, "shrink", c.cfg, c.boot, ranks)
}
