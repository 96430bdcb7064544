package link

import (
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
)

// Write puts n bytes directly if the network reaches both ends, else in chunks through staging buffers.
func (l *Link) Write(dst transport.Remote, src device.Ptr, n int64) error {
	if n == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return transport.ErrClosed
	}
	to, ok := l.imports[dst.Region]
	if !ok {
		return fmt.Errorf("link: %w: memory %#x was not imported", transport.ErrNotReachable, dst.Region)
	}
	if from, off := l.opt.Sources.find(src, n); from != nil && to != nil {
		if err := l.put(from, off, to, int64(dst.Offset), n, immData+uint32(l.next%slots)); err != nil {
			return err
		}
		l.open++
		return nil
	}
	for at := int64(0); at < n; at += chunk {
		if err := l.staged(dst.Add(uint64(at)), to, src.Add(at), min(chunk, n-at)); err != nil {
			return err
		}
	}
	return nil
}

// staged writes at most a chunk. A record holds the slot's buffers until the bytes are in place.
func (l *Link) staged(dst transport.Remote, to transport.RemoteRegion, src device.Ptr, n int64) error {
	s, err := l.slot()
	if err != nil {
		return err
	}
	from, at := l.opt.Sources.find(src, n)
	if from == nil {
		if l.stage == nil {
			if l.stage, err = newBuffer(l.port, slots*chunk); err != nil {
				return err
			}
		}
		at = int64(s * chunk)
		b := l.stage.b[at : at+n]
		if l.opt.Source == nil || l.opt.Source.ID().Kind == device.Host {
			copy(b, device.Bytes(src, n))
		} else if err := l.opt.Source.CopyOut(b, src); err != nil {
			return err
		}
		from = l.stage.region
	}
	r := record{op: opWrite, region: dst.Region, offset: dst.Offset, length: uint64(n)}
	far, farOff := l.far, int64(s*chunk)
	if to != nil {
		r, far, farOff = record{op: opHold}, to, int64(dst.Offset)
	}
	if err := l.put(from, at, far, farOff, n, immData+uint32(s)); err != nil {
		return err
	}
	l.open++
	return l.record(r)
}
