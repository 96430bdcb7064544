package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

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
	_ = rc.send(frameGiveUp, tag, []byte(err.Error()))
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

func (rc *rootClient) send(kind frameKind, tag uint64, data []byte) error {
	return rc.pass(kind, 0, tag, data)
}

// pass sends a frame about another rank, if space is not 0 (branch).
func (rc *rootClient) pass(kind frameKind, space, tag uint64, data []byte) error {
	return rc.fc.within(rc.timeout, kind, space, tag, data)
}

func (rc *rootClient) close() {
	rc.fc.close()
	rc.wg.Wait()
}
