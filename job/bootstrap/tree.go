package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/internal/sockets"
)

// branch is a rank's place in the tree over which a job joins: the way up to its parent, or the root, and the ranks
// below. It passes the root's frames to the ranks below, and their frames up. Frames that go up have the
// number of the rank that they are about, plus one, as their space; 0 is the rank that sends them.
type branch struct {
	c       *config
	up      *rootClient // Set, as session, before the gate serves.
	session [16]byte

	mu    sync.Mutex
	below map[int]*frameConn
	sent  []rootSend // what a rank that comes late must get
	over  bool
	wg    sync.WaitGroup
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
		_ = fc.within(b.c.timeout, s.kind, 0, 0, s.data)
	}
	b.wg.Go(func() { b.serve(fc, int(them.rank)) })
}

// down passes a frame to the ranks below.
func (b *branch) down(kind frameKind, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if kind != frameStatus {
		b.sent = append(b.sent, rootSend{kind: kind, data: data})
	}
	if kind == frameGo || kind == frameFail {
		b.over = true
	}
	var wg sync.WaitGroup
	for _, fc := range b.below {
		if fc != nil {
			wg.Go(func() { _ = fc.within(b.c.timeout, kind, 0, 0, data) })
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
			h.space = cmp.Or(h.space, uint64(rank)+1)
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
	hangUp := func() {
		for _, fc := range below {
			if fc != nil {
				fc.close()
			}
		}
	}
	late := time.AfterFunc(rootLinger, hangUp)
	b.wg.Wait()
	late.Stop()
	hangUp()
}

// attach gets a parent from the root, connects to it, and returns the way up.
func (b *branch) attach(ctx context.Context, o *overlay, rc *rootClient) (*rootClient, error) {
	rank, world := o.e.rank, o.e.size
	raw, err := rc.await(ctx, rc.parent)
	if err != nil {
		return nil, err
	}
	parent, err := decodeParent(raw, world)
	if err != nil {
		return nil, rc.giveUp(err)
	}
	up := rc
	if above := int(parent.rank); above >= 0 {
		me := greeting{role: roleDialer, purpose: purposeBelow, world: uint32(world), rank: int32(rank),
			target: parent.rank, session: parent.session}
		fc, err := o.d.dialMember(ctx, o.c, me, &parent.member, o.ls)
		if err != nil {
			if ctx.Err() != nil {
				return nil, rc.giveUp(contextError(ctx))
			}
			_ = rc.pass(frameLost, uint64(above)+1, 0, fmt.Appendf(nil, "rank %d cannot reach it: %v", rank, err))
			return nil, &blame{above, err}
		}
		up = newRootClient(fc, above, rc.timeout, rc.note, rc.fail, b)
	} else {
		rc.below.Store(b)
	}
	b.session, b.up = parent.session, up
	o.gate.serve() // before the others know us
	rc.detached.Store(up != rc)
	if err := rc.pass(frameAttached, 0, 0, nil); err != nil {
		if up != rc {
			up.close()
		}
		return nil, hungUp(ctx)
	}
	return up, nil
}

// reasonOf encodes why this rank has stopped joining, for the ranks below.
func reasonOf(err error) []byte {
	f := rootFailure{peer: -1, text: err.Error()}
	if b, ok := errors.AsType[*blame](err); ok {
		f.peer = int32(b.peer)
	}
	if errors.Is(err, ErrTimeout) {
		f.verdict = verdictTimeout
	}
	return f.encode()
}

// rootClient is a rank's connection to the root.
type rootClient struct {
	fc    *frameConn
	table chan []byte
	start chan []byte
	// Our place in the tree; the frames that are passed on; the other side is our parent, not the root;
	// the end of the connection is no failure.
	parent   chan []byte
	below    atomic.Pointer[branch]
	parental bool
	detached atomic.Bool
	fail     context.CancelCauseFunc // ends the joining with a cause
	rank     int                     // the root's rank, from its greeting
	// timeout bounds each send, also after the joining has ended; note is added to the error of a timeout.
	timeout time.Duration
	note    string
	wg      sync.WaitGroup

	mu     sync.Mutex
	status *rootStatus
}

func newRootClient(fc *frameConn, rank int, timeout time.Duration, note string,
	cancel context.CancelCauseFunc, parentOf *branch) *rootClient {
	rc := &rootClient{fc: fc, rank: rank, timeout: timeout, note: note, table: make(chan []byte, 1),
		start: make(chan []byte, 1), parent: make(chan []byte, 1), parental: parentOf != nil, fail: cancel}
	rc.below.Store(parentOf)
	rc.wg.Go(rc.listen)
	return rc
}

// listen reads frames of the root. It ends at go, at a failure, or when the connection is closed.
func (rc *rootClient) listen() {
	for tables := 0; ; {
		h, data, err := rc.fc.read()
		if err == nil {
			if b := rc.below.Load(); b != nil && h.kind != frameParent {
				b.down(h.kind, data)
			}
			switch h.kind {
			case frameStatus:
				var s rootStatus
				if s, err = decodeStatus(data); err == nil {
					rc.mu.Lock()
					rc.status = &s
					rc.mu.Unlock()
				}
			case frameTable:
				if tables++; tables > 1 {
					err = fmt.Errorf("%w: a second table", ErrProtocol)
				} else {
					rc.table <- data
				}
			case frameParent:
				if rc.parental || len(rc.parent) > 0 {
					err = fmt.Errorf("%w: a second parent", ErrProtocol)
				} else {
					rc.parent <- data
				}
			case frameGo:
				rc.start <- data
				return
			case frameFail:
				var f rootFailure
				if f, err = decodeFailure(data); err == nil {
					rc.fail(&blame{int(f.peer), failureError(f)})
					return
				}
			default:
				err = fmt.Errorf("%w: frame kind %d from the root", ErrProtocol, h.kind)
			}
		}
		if err != nil {
			if rc.detached.Load() {
				return
			}
			what := "the root"
			if rc.parental {
				what = "the rank over which this one joins"
			}
			err = &blame{rc.rootRank(), peerDead(fmt.Errorf("%s was lost while joining: %w", what, err))}
			if b := rc.below.Load(); b != nil {
				b.down(frameFail, reasonOf(err))
			}
			rc.fail(err)
			return
		}
	}
}

func failureError(f rootFailure) error {
	err := f.verdict.err()
	switch {
	case err != nil:
	case f.peer >= 0:
		err = ErrPeerDead
	default:
		err = ErrClosed
	}
	return fmt.Errorf("%w: %s", err, f.text)
}

// rootRank returns a rank in the root's process, or -1. A rank that joined before the root's own learns it from the
// status.
func (rc *rootClient) rootRank() int {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.status == nil || rc.parental {
		return rc.rank
	}
	return int(rc.status.rootRank)
}

// giveUp tells the root that this rank stops joining, and adds the missing ranks to a timeout error.
func (rc *rootClient) giveUp(err error) error {
	tag := uint64(0)
	if errors.Is(err, ErrTimeout) {
		tag = giveUpTimeout
		if rc.note != "" {
			err = fmt.Errorf("%w; %s", err, rc.note)
		}
		rc.mu.Lock()
		// An error from the root already contains the missing ranks.
		if s := rc.status; s != nil && s.total > 0 && !errors.As(err, new(*blame)) {
			err = fmt.Errorf("%w; ranks %s have not come", err, s)
			if s.total == 1 {
				err = &blame{s.missing[0], err}
			}
		}
		rc.mu.Unlock()
	}
	_ = rc.pass(frameGiveUp, 0, tag, []byte(err.Error()))
	return err
}

// await waits for what comes from above.
func (rc *rootClient) await(ctx context.Context, ch <-chan []byte) ([]byte, error) {
	select {
	case data := <-ch:
		return data, nil
	case <-ctx.Done():
		return nil, rc.giveUp(contextError(ctx))
	}
}

// pass sends a frame about another rank, if space is not 0 (branch).
func (rc *rootClient) pass(kind frameKind, space, tag uint64, data []byte) error {
	return rc.fc.within(rc.timeout, kind, space, tag, data)
}

func (rc *rootClient) close() {
	rc.fc.close()
	rc.wg.Wait()
}
