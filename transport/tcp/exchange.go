package tcp

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// NewExchange makes a credential whose holders can ask answer once per connection. Requests and replies have at most
// 64 KiB; both are encrypted. from is what the asker gave.
func (n *Node) NewExchange(answer func(request []byte, from uint64) ([]byte, error)) Credential {
	return n.newEndpoint(func(s *stream, from uint64) error {
		request, err := s.message()
		if err != nil {
			return err
		}
		reply, err := answer(request, from)
		if err != nil {
			_ = s.write(header{op: opAck, status: statusRegion}, nil)
			return err
		}
		_ = s.conn.SetWriteDeadline(time.Now().Add(n.opt.Timeout))
		return s.write(header{op: opWrite, length: uint32(len(reply))}, reply)
	})
}

// Exchange asks the holder of an exchange's credential at to.
func (n *Node) Exchange(ctx context.Context, to netip.AddrPort, cred Credential, from uint64, request []byte) (
	reply []byte, err error) {
	if len(request) == 0 || len(request) > maxPayload {
		return nil, fmt.Errorf("tcp: exchange: a request of %d bytes", len(request))
	}
	ctx, cancel := context.WithTimeout(ctx, n.opt.Timeout)
	defer cancel()
	err = n.retry(ctx, func() error {
		s, err := n.greet(ctx, to, &cred, from)
		if err != nil {
			return err
		}
		defer func() { _ = s.conn.Close() }()
		end, _ := ctx.Deadline()
		_ = s.conn.SetWriteDeadline(end)
		if err := s.write(header{op: opWrite, length: uint32(len(request))}, request); err != nil {
			return errRetry{err}
		}
		reply, err = s.message()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tcp: exchange with %v: %w", to, err)
	}
	return reply, nil
}

// message receives a frame with a payload, and copies it.
func (s *stream) message() ([]byte, error) {
	_ = s.conn.SetReadDeadline(time.Now().Add(s.timeout))
	h, err := s.read()
	if err != nil {
		return nil, err
	}
	if h.op != opWrite {
		return nil, fmt.Errorf("%w: operation %d, status %d instead of a message", errFrame, h.op, h.status)
	}
	b, err := s.payload(int(h.length))
	return append([]byte(nil), b...), err
}
