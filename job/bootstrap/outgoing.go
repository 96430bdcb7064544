package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// outgoing is a connection that this rank dials, for its messages to one peer.
type outgoing struct {
	peer   int
	ready  chan struct{} // closed when l or err is set
	cancel context.CancelFunc
	l      *meshLink
	err    error
	// Guarded by the web's mu.
	users  int  // messages that are being sent
	wanted bool // the peer has asked for its rest
}

// route is the link to a peer of a web.
type route struct {
	w    *web
	peer int
}

// errUnsent means that a message could not be sent, which says nothing about the peer.
type errUnsent struct{ error }

func (e errUnsent) Unwrap() error { return e.error }

func (r route) send(ctx context.Context, kind frameKind, space, tag uint64, data []byte) error {
	o, err := r.w.take(ctx, r.peer)
	if err != nil {
		if !errors.Is(err, ErrPeerDead) {
			err = errUnsent{err}
		}
		return err
	}
	defer r.w.release(o)
	o.l.used.Store(now())
	return o.l.send(ctx, kind, space, tag, data)
}

// take returns the connection to peer, and makes it if there is none. The caller releases it.
func (w *web) take(ctx context.Context, peer int) (*outgoing, error) {
	var o *outgoing
	err := w.until(ctx, func() bool {
		if o = w.out[peer]; o == nil && !w.closed && w.place(peer) {
			o = &outgoing{peer: peer, ready: make(chan struct{})}
			var dialing context.Context
			dialing, o.cancel = stepContext(w.ctx, w.c.timeout)
			w.out[peer] = o
			w.tasks.Go(func() { w.dial(dialing, o) })
		}
		if o != nil {
			o.users++
		}
		return o != nil || w.closed
	})
	switch {
	case err != nil:
		return nil, err
	case o == nil:
		return nil, ErrClosed
	}
	select {
	case <-o.ready:
		err = o.err
	case <-ctx.Done():
		err = contextError(ctx)
	}
	if err != nil {
		w.release(o)
		return nil, err
	}
	return o, nil
}

// place reports whether one more connection may be made. The caller holds mu.
func (w *web) place(peer int) bool {
	if w.pins[peer] > 0 {
		return true
	}
	var idle []*outgoing
	guests := 0
	for p, o := range w.out {
		if w.pins[p] > 0 {
			continue
		}
		if guests++; o.users == 0 && o.l != nil {
			idle = append(idle, o)
		}
	}
	if guests < w.c.guests {
		return true
	}
	if len(idle) == 0 {
		return false
	}
	w.rest(slices.MinFunc(idle, func(a, b *outgoing) int { return int(a.l.used.Load() - b.l.used.Load()) }))
	return true
}

// rest ends a connection that nothing is sent over. Its data stays in order: the peer closes it when it has read all.
// The caller holds mu.
func (w *web) rest(o *outgoing) {
	delete(w.out, o.peer)
	o.l.resting.Store(true)
	w.turn()
	if !w.silent {
		w.tasks.Go(func() { _ = o.l.fc.write(w.ctx, frameRest, 0, 0, nil) })
	}
}

// wanted answers a peer that asks for the rest of a connection.
func (w *web) wanted(l *meshLink) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.out[l.peer]
	switch {
	case o == nil || o.l != l || w.silent:
	case w.pins[l.peer] > 0:
		w.tasks.Go(func() { _ = l.fc.write(w.ctx, frameStay, 0, 0, nil) })
	case o.users > 0:
		o.wanted = true
	default:
		w.rest(o)
	}
}

func (w *web) release(o *outgoing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.users--; o.users == 0 && w.out[o.peer] == o && o.l != nil {
		if o.wanted && w.pins[o.peer] == 0 {
			w.rest(o)
		}
		w.turn()
	}
}

// dial makes a connection. Its first frame shows the peer that it was made.
func (w *web) dial(ctx context.Context, o *outgoing) {
	defer o.cancel()
	l, err := (*meshLink)(nil), error(nil)
	var fc *frameConn
	if fc, err = w.d.dialPeer(ctx, w.c, w.e.rank, o.peer, w.t, w.ls, goneFar); err == nil {
		l = w.m.newLink(o.peer, fc)
		w.mu.Lock()
		pinned := w.pins[o.peer] > 0
		w.mu.Unlock()
		first := frameHeartbeat
		if pinned {
			first = frameStay
			l.stays.Store(true)
			l.watch(ctx, w.t)
		}
		err = fc.write(ctx, first, 0, 0, nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && !w.m.serve(l, func() {
		l.read()
		w.m.remove(l)
		w.ended(o)
	}) {
		err = ErrClosed
	}
	if err != nil {
		if fc != nil {
			fc.close()
			l.unwatch()
		}
		delete(w.out, o.peer)
		l, err = nil, fmt.Errorf("no way to rank %d: %w", o.peer, err)
	}
	o.l, o.err = l, err
	close(o.ready)
	w.turn()
}

func (w *web) ended(o *outgoing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out[o.peer] == o {
		delete(w.out, o.peer)
	}
	w.turn()
}

// leftOut ends an attempt to reach a peer that has gone.
func (w *web) leftOut(peer int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.out[peer]; o != nil && o.l == nil {
		o.cancel()
	}
}

// connect opens the connections that stay, and waits for those of others.
func (w *web) connect(ctx context.Context) error {
	peers := neighbours(w.e.rank, everyone(w.e.size))
	w.pin(peers, 1)
	defer w.pin(peers, -1) // the group of the whole job pins them, too
	for _, p := range peers {
		o, err := w.take(ctx, p)
		if err != nil {
			if ctx.Err() == nil {
				err = &blame{p, err}
			}
			return err
		}
		w.release(o)
	}
	var absent []int
	err := w.until(ctx, func() bool {
		absent = nil
		for d := 1; d < w.e.size; d *= 2 {
			p := (w.e.rank - d + w.e.size) % w.e.size
			if in := w.in[p]; len(in) == 0 || in[0].l == nil {
				absent = append(absent, p)
			}
		}
		return len(absent) == 0
	})
	if errors.Is(err, ErrTimeout) {
		err = fmt.Errorf("%w; no connection with ranks %s", err, rankList(absent))
	}
	return err
}
