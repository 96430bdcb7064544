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
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	mine := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(color)), uint64(key))
	all, err := c.boot.AllGather(ctx, mine)
	if err != nil {
		return nil, &Error{Op: "split", Rank: c.rank, Peer: peerOf(err), Err: err}
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
	if color == NoColor {
		ranks = nil
	}
	return c.sub(ctx, "split", ranks)
}

// Shrink makes a communicator without the ranks in exclude, also after they have died. Only the ranks that stay call it, all with the same
// exclude. With abort, running work is ended first.
func (c *Comm) Shrink(ctx context.Context, exclude []int, abort bool) (*Comm, error) {
	if len(exclude) == 0 || len(exclude) >= c.size {
		return nil, c.errorf("shrink", ErrInvalidArgument, "%d ranks to exclude of %d", len(exclude), c.size)
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
	if abort {
		c.Abort(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	return c.sub(ctx, "shrink", ranks)
}

// sub makes a communicator of some ranks of c, in the given order; nil ranks: this rank is in none.
func (c *Comm) sub(ctx context.Context, op string, ranks []int) (*Comm, error) {
	space := int(c.id + c.subs.Add(1)) // counted by members and others alike
	if ranks == nil {
		return nil, nil
	}
	b, err := c.boot.Sub(ctx, ranks, space)
	if err != nil {
		return nil, &Error{Op: op, Rank: c.rank, Peer: peerOf(err), Err: err}
	}
	cfg := c.cfg
	cfg.Bootstrap = b
	n, err := NewComm(ctx, cfg)
	if err != nil {
		_ = b.Close()
		return nil, err
	}
	n.owned = true
	return n, nil
}
