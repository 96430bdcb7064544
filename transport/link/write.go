package link

import (
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
	to, err := l.imported(dst)
	if err != nil {
		return err
	}
	if from, off := l.opt.Sources.find(src, n); from != nil && to != nil {
		if err := l.put(from, off, to, int64(dst.Offset), n, immData+uint32(l.next%slots)); err != nil {
			return err
		}
		l.pending++
		return nil
	}
	for at := int64(0); at < n; at += chunk {
		if err := l.staged(dst.Add(uint64(at)), to, src.Add(at), min(chunk, n-at)); err != nil {
			return err
		}
	}
	return nil
}

// staged writes at most a chunk. A command holds the slot's buffers until the bytes are in place.
func (l *Link) staged(dst transport.Remote, to transport.RemoteRegion, src device.Ptr, n int64) error {
	s, err := l.slot()
	if err != nil {
		return err
	}
	from, at := l.opt.Sources.find(src, n)
	if from == nil {
		if from, at, err = l.copyOut(s, src, n); err != nil {
			return err
		}
	}
	c := command{op: opWrite, region: dst.Region, offset: dst.Offset, length: uint64(n)}
	place, placeOff := l.stage, int64(s*chunk)
	if to != nil {
		c, place, placeOff = command{op: opHold}, to, int64(dst.Offset)
	}
	if l.batch != nil {
		l.batch.Hold()
		defer l.batch.Release()
	}
	if err := l.put(from, at, place, placeOff, n, immData+uint32(s)); err != nil {
		return err
	}
	l.pending++
	return l.command(c)
}

// copyOut copies the source to this side's staging buffer of a slot.
func (l *Link) copyOut(slot int, src device.Ptr, n int64) (from transport.Region, at int64, err error) {
	if l.staging == nil {
		if l.staging, err = newBuffer(l.port, slots*chunk); err != nil {
			return nil, 0, err
		}
	}
	at = int64(slot * chunk)
	b := l.staging.b[at : at+n]
	if l.opt.Source == nil || l.opt.Source.ID().Kind == device.Host {
		copy(b, device.Bytes(src, n))
	} else if err := l.opt.Source.CopyOut(b, src); err != nil {
		return nil, 0, err
	}
	return l.staging.region, at, nil
}
