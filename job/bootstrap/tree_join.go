package bootstrap

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// joinTree is what join does after it has met the root, for a job that joins over a tree.
//
//  1. Listen, and send the root our addresses.
//  2. Get a parent, connect to it, and let the root go.
//  3. Receive the table, connect to our neighbours in the web, and find out which host we are on.
//  4. Wait for all other ranks. What comes from above is passed to the ranks below until then.
func (t *TCP) joinTree(ctx context.Context, cancel context.CancelCauseFunc, c *config, d *dialer,
	rc *rootClient) (g *group, err error) {
	// 1.
	ls, err := listenMesh(c, d.meshIPs(rc.fc.c, c.family))
	if err != nil {
		return nil, rc.giveUp(err)
	}
	if c.hostID == "" {
		ls.self.host = place()
	}
	e := newEndpoint(t.rank, t.world, c)
	w := newWeb(c, d, e, ls)
	b := &branch{c: c, below: map[int]*frameConn{}}
	if page, err := acquireLiveness(); err == nil {
		w.m.live, ls.self.liveness = true, page.ticket
	} else {
		c.log.Debug("bootstrap: peers will notice our death by our sockets alone", "rank", t.rank, "error", err)
	}
	w.gate = newGate(w, b, cancel)
	w.gate.serve()
	w.m.start()
	defer func() {
		if err != nil {
			b.down(frameFail, reasonOf(err))
			e.abandon(ErrClosed)
			w.abandon()
		}
		b.close()
	}()
	if err := rc.send(frameJoin, 0, ls.self.append(nil)); err != nil {
		return nil, hungUp(ctx)
	}

	// 2.
	up, err := b.attach(ctx, w, rc, t.rank, t.world)
	if err != nil {
		return nil, err
	}
	if up != rc {
		defer up.close()
		rc.close()
	}

	// 3.
	raw, err := up.await(ctx, up.table)
	if err != nil {
		return nil, err
	}
	tab, err := decodeTable(raw, t.world)
	if err != nil {
		return nil, up.giveUp(err)
	}
	w.t = &tab
	if err := w.connect(ctx); err != nil {
		return nil, up.giveUp(err)
	}
	here, err := w.meetHost(ctx)
	if err != nil {
		return nil, up.giveUp(err)
	}

	// 4.
	if err := up.send(frameReady, 0, here[:]); err != nil {
		return nil, hungUp(ctx)
	}
	if raw, err = up.await(ctx, up.start); err != nil {
		return nil, err
	}
	if e.hosts, err = decodeHosts(raw, t.world); err != nil {
		return nil, err
	}
	return newGroup(e, 0, everyone(t.world))
}

// attach gets a parent from the root, connects to it, and returns the way up.
func (b *branch) attach(ctx context.Context, w *web, rc *rootClient, rank, world int) (*rootClient, error) {
	raw, err := rc.await(ctx, rc.parent)
	if err != nil {
		return nil, err
	}
	parent, err := decodeParent(raw, world)
	if err != nil {
		return nil, rc.giveUp(err)
	}
	up := rc
	if parent.rank >= 0 {
		me := greeting{role: roleDialer, purpose: purposeBelow, world: uint32(world), rank: int32(rank),
			target: int32(parent.rank), session: parent.session}
		fc, err := w.d.dialMember(ctx, w.c, me, &parent.member, w.ls, goneFar)
		if err != nil {
			if ctx.Err() != nil {
				return nil, rc.giveUp(contextError(ctx))
			}
			_ = rc.pass(frameLost, uint64(parent.rank)+1, 0, fmt.Appendf(nil, "rank %d cannot reach it: %v", rank, err))
			return nil, &blame{parent.rank, err}
		}
		up = newRootClient(fc, parent.rank, rc.timeout, rc.note, rc.fail, b)
	} else {
		rc.below.Store(b)
	}
	b.mu.Lock()
	b.session, b.up = parent.session, up
	b.mu.Unlock()
	rc.detached.Store(up != rc)
	if err := rc.send(frameAttached, 0, nil); err != nil {
		if up != rc {
			up.close()
		}
		return nil, hungUp(ctx)
	}
	return up, nil
}

func everyone(n int) []int {
	all := make([]int, n)
	for r := range all {
		all[r] = r
	}
	return all
}

// reasonOf encodes why this rank has stopped joining, for the ranks below.
func reasonOf(err error) []byte {
	f := rootFailure{peer: -1, text: err.Error()}
	var b *blame
	if errors.As(err, &b) {
		f.peer = int32(b.peer)
	}
	if errors.Is(err, ErrTimeout) {
		f.verdict = verdictTimeout
	}
	return f.encode()
}

// meetHost returns a digest that the ranks of this rank's host have in common. Whether the ranks of one place (place)
// really reach each other is tested: each meets the lowest of them.
func (w *web) meetHost(ctx context.Context) (here [32]byte, err error) {
	here = w.ls.self.host
	first := 0
	for w.t.members[first].host != here {
		first++
	}
	if first == w.e.rank {
		return here, nil
	}
	me := greeting{role: roleDialer, purpose: purposeMeet, world: uint32(w.e.size), rank: int32(w.e.rank),
		target: int32(first), session: w.t.session}
	fc, _, err := w.d.dialHere(ctx, w.t.members[first].unix, me)
	switch {
	case err == nil:
		fc.close()
	case !errors.Is(err, errNotHere):
		return here, &blame{first, err}
	case w.c.hostID != "":
		return here, fmt.Errorf("%w: GOCCL_HOSTID or NCCL_HOSTID says that rank %d is on this host, but %s: %w", ErrInvalid,
			first, wayOut, err)
	default:
		here = sha256.Sum256(binary.LittleEndian.AppendUint32(here[:], uint32(w.e.rank)))
	}
	return here, nil
}
