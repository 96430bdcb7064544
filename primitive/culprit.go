package primitive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/fault"
)

// culpritDelay is how long Culprit waits for the word of a rank in the chain. Ranks that wait for each other time out
// at about the same time.
const culpritDelay = 300 * time.Millisecond

// Culprit follows a chain of waits. A rank whose wait has timed out names the rank that it waited for, which may
// itself wait for a third, and so on. Each rank with such an error passes it here, and gets one that names the last
// rank of the chain, which has reported no wait. Other errors, and nil, are returned unchanged.
//
//  1. Send every peer the rank that this rank has waited for.
//  2. Receive the report of that rank, for at most culpritDelay, then of the rank that it names, until one has none. In
//     a circle the rank of the original error is named.
//
// Ranks that fail together must have called Culprit equally often on this communicator before.
func (c *Communicator) Culprit(ctx context.Context, failed error) error {
	e := fault.PartOf(failed, Part)
	if e == nil || !errors.Is(failed, ErrTimeout) || e.Peer < 0 || e.Peer >= c.WorldSize() {
		return failed
	}
	c.mu.Lock()
	c.culprits++
	number := c.culprits
	c.mu.Unlock()
	defer c.sendReport(ctx, number, e.Peer)()
	last, been := e.Peer, map[int]bool{c.Rank(): true}
	for !been[last] {
		been[last] = true
		next, ok := c.receiveReport(ctx, last, number)
		if !ok {
			named := *e
			named.Peer = last
			if last != e.Peer {
				named.Err = fmt.Errorf("%w: the rank that was waited for waits itself, at the end for this one", e.Err)
			}
			return &named
		}
		last = next
	}
	return failed
}

// sendReport sends every peer whom this rank has waited for. The result waits until that has ended.
func (c *Communicator) sendReport(ctx context.Context, number uint64, peer int) (wait func()) {
	report := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, number), uint32(peer))
	ctx, stop := context.WithTimeout(ctx, culpritDelay)
	var sent sync.WaitGroup
	for p := range c.WorldSize() {
		if p != c.Rank() {
			sent.Go(func() { _ = c.send(ctx, kindCulprit, p, 0, nil, func() ([]byte, error) { return report, nil }) })
		}
	}
	return func() {
		sent.Wait()
		stop()
	}
}

// receiveReport returns whom a peer has waited for. ok is false if its report does not come in time.
func (c *Communicator) receiveReport(ctx context.Context, peer int, number uint64) (next int, ok bool) {
	ctx, stop := context.WithTimeout(ctx, culpritDelay)
	defer stop()
	for {
		b, err := c.recv(ctx, kindCulprit, peer, 0, nil)
		if err != nil || len(b) != 12 {
			return 0, false
		}
		if binary.LittleEndian.Uint64(b) < number { // of an earlier failure
			continue
		}
		next = int(binary.LittleEndian.Uint32(b[8:]))
		return next, next < c.WorldSize()
	}
}
