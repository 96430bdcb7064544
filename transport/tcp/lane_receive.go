package tcp

import (
	"errors"
	"fmt"
	"io"

	"github.com/goccl/goccl/transport"
)

// serve reads until the connection ends: lane 0 by the poller, the others on this goroutine. Then it decides what the
// end means.
func (l *lane) serve(w *line) {
	defer close(w.ended)
	r := newReader(l, w)
	var err error
	if l.index == 0 {
		err = l.peer.port.poller.read(r)
	} else {
		err = r.run()
	}
	var bad *packetError
	var said *refusedError
	switch {
	case l.peer.Err() != nil:
		_, _ = io.Copy(io.Discard, w.conn) // see drain
	case errors.Is(err, errBye):
		l.peer.fail(fmt.Errorf("%w: %v", transport.ErrPeerClosed, w.conn.RemoteAddr()))
	case errors.As(err, &said):
		l.peer.fail(fmt.Errorf("tcp: refused by %v: %w", w.conn.RemoteAddr(), said.err))
	case errors.As(err, &bad):
		l.peer.mu.Lock()
		l.peer.refused = bad.status
		l.peer.mu.Unlock()
		l.refuse(bad.status)
		l.peer.stop(fmt.Errorf("tcp: from %v: %w", w.conn.RemoteAddr(), err), true)
		_, _ = io.Copy(io.Discard, w.conn)
	default:
		l.lose(w, err)
	}
	w.close()
}

// refuse tells the peer why its packet was refused, if the socket takes it.
func (l *lane) refuse(status uint8) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.line != nil && l.out.empty() && !l.blocked {
		l.refused = status
		_ = l.pump()
	}
}
