package goccl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"

	"github.com/goccl/goccl/bootstrap"
)

// NoColor excludes a rank from every communicator that Split makes.
const NoColor = -1

// Split makes one new communicator for each color. Its ranks are ordered by key, then by their rank in c. Split is
// collective over c. A rank with NoColor takes part and gets nil.
func (c *Comm) Split(ctx context.Context, color, key int) (*Comm, error) {
	if color < NoColor {
		return nil, c.errorf("split", ErrInvalidArgument, "color %d is negative and not NoColor", color)
	}
	if err := c.whole("split"); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	ctx, stop2 := c.together(ctx)
	defer stop2()
	mine := binary.LittleEndian.AppendUint64([]byte(splitMark), rand.Uint64())
	mine = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(mine, uint64(color)), uint64(key))
	all, err := c.boot.AllGather(ctx, mine)
	if err != nil {
		return nil, c.splitError(ctx, err)
	}
	if color == NoColor {
		return nil, nil
	}
	type member struct{ rank, key int }
	var members []member
	agreed := []byte(splitMark)
	for r, b := range all {
		if len(b) != len(splitMark)+24 || string(b[:len(splitMark)]) != splitMark {
			return nil, &Error{Comm: c.cfg.Name, Op: "split", Rank: c.rank, Peer: r, Err: fmt.Errorf("%w: this rank is in Split and the peer in something else: all ranks must make the same calls in the same order", ErrMismatch)}
		}
		agreed = append(agreed, b...)
		b = b[len(splitMark)+8:]
		if int(int64(binary.LittleEndian.Uint64(b))) == color {
			members = append(members, member{r, int(int64(binary.LittleEndian.Uint64(b[8:])))})
		}
	}
	sort.SliceStable(members, func(i, j int) bool { return members[i].key < members[j].key })
	ranks := make([]int, len(members))
	for i, m := range members {
		ranks[i] = m.rank
	}
	sub, err := join(ctx, "split", c.cfg, c.boot, ranks, bootstrap.OnceSpace(agreed))
	if err != nil {
		return nil, c.splitError(ctx, err)
	}
	return sub, nil
}

// splitMark is the prefix of the messages of a Split, which tells them from other messages. A random number of each
// rank follows, so that the messages together identify this one call.
const splitMark = "split"

// together derives a context from ctx that also ends with the communicator, or when a peer calls Shrink, because that
// peer will not join this Split.
func (c *Comm) together(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	bounded, stop := c.status.bound(ctx)
	c.council.Listen()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			peer, changed := c.council.Calling()
			if peer >= 0 {
				cancel(&Error{Comm: c.cfg.Name, Op: "split", Rank: c.rank, Peer: peer, Err: fmt.Errorf("%w: this rank is in Split and the peer in Shrink of the same communicator", ErrMismatch)})
				return
			}
			select {
			case <-changed:
			case <-bounded.Done():
				return
			}
		}
	}()
	return bounded, func() {
		stop()
		cancel(nil)
		<-done
	}
}

// splitError returns the error of a Split that failed with err: the communicator's end, a peer that is in Shrink, or
// err itself.
func (c *Comm) splitError(ctx context.Context, err error) error {
	var elsewhere *Error
	if c.status.err() == nil && errors.As(context.Cause(ctx), &elsewhere) {
		return elsewhere
	}
	return c.ended("split", err)
}
