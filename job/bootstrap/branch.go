package bootstrap

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/sockets"
)

// branch is a rank's place in the tree over which a large job joins: the way up to its parent, or the root, and the
// ranks below. It passes what the root sends to the ranks below, and what they send up. Frames that go up have the
// number of the rank that they are about, plus one, as their space; 0 is the rank that sends them.
type branch struct {
	c  *config
	up *rootClient // set before a rank below is admitted

	mu      sync.Mutex
	session [16]byte // zero until this rank has its place
	below   map[int]*frameConn
	sent    []outFrame // what a rank that comes late must get
	over    bool
	wg      sync.WaitGroup
}

type outFrame struct {
	kind frameKind
	data []byte
}

func (b *branch) admit(them greeting) verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch _, known := b.below[int(them.rank)]; {
	case b.over:
		return verdictGaveUp
	case known:
		return verdictDuplicate
	}
	b.below[int(them.rank)] = nil
	return verdictOK
}

func (b *branch) abandon(them greeting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.below, int(them.rank))
}

func (b *branch) enter(fc *frameConn, them greeting) {
	sockets.Tune(fc.c, b.c.partition)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		fc.close()
		return
	}
	b.below[int(them.rank)] = fc
	for _, s := range b.sent {
		b.send(fc, s)
	}
	b.wg.Go(func() { b.serve(fc, int(them.rank)) })
}

func (b *branch) send(fc *frameConn, s outFrame) {
	ctx, cancel := context.WithTimeout(context.Background(), b.c.timeout)
	defer cancel()
	_ = fc.write(ctx, s.kind, 0, 0, s.data) // serve finds a broken connection
}

// down passes a frame to the ranks below.
func (b *branch) down(kind frameKind, data []byte) {
	s := outFrame{kind, data}
	b.mu.Lock()
	defer b.mu.Unlock()
	if kind != frameStatus {
		b.sent = append(b.sent, s)
	}
	if kind == frameGo || kind == frameFail {
		b.over = true
	}
	var wg sync.WaitGroup
	for _, fc := range b.below {
		if fc != nil {
			wg.Go(func() { b.send(fc, s) })
		}
	}
	wg.Wait()
}

// serve passes up what a rank below sends.
func (b *branch) serve(fc *frameConn, rank int) {
	for {
		h, data, err := fc.read()
		switch {
		case err != nil:
		case h.kind != frameReady && h.kind != frameGiveUp && h.kind != frameLost:
			err = fmt.Errorf("%w: frame kind %d from a rank below", ErrProtocol, h.kind)
		default:
			if h.space == 0 {
				h.space = uint64(rank) + 1
			}
			_ = b.up.pass(h.kind, h.space, h.tag, data)
			continue
		}
		b.mu.Lock()
		quiet := b.over
		b.mu.Unlock()
		if !quiet {
			_ = b.up.pass(frameLost, uint64(rank)+1, 0, []byte(err.Error()))
		}
		return
	}
}

// close ends the connections to the ranks below. They hang up themselves when they have got the end.
func (b *branch) close() {
	b.mu.Lock()
	b.over = true
	below := slices.Collect(maps.Values(b.below))
	b.mu.Unlock()
	late := time.AfterFunc(rootLinger, func() {
		for _, fc := range below {
			if fc != nil {
				fc.close()
			}
		}
	})
	b.wg.Wait()
	late.Stop()
	for _, fc := range below {
		if fc != nil {
			fc.close()
		}
	}
}
