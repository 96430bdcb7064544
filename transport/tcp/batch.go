package tcp

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/transport"
)

const (
	batchPackets = 16
	batchBytes   = 512 << 10
)

// segment is a part of a batch: a header, sealed records, or a payload in a region.
type segment struct {
	b   []byte
	src *netRegion
}

// batch holds the packets that a lane is sending. It does not change until it is sent or its connection is lost.
type batch struct {
	heads    [batchPackets]packet
	used     int
	segments [2 * batchPackets]segment
	n, at    int // segments at … n-1 are to be sent; the slice of the first one is its unsent part
	sealed   []byte
	iov      [2 * batchPackets]unix.Iovec
	msg      unix.Msghdr
}

func (b *batch) empty() bool { return b.at == b.n }

func (b *batch) reset() { b.used, b.n, b.at, b.sealed = 0, 0, 0, b.sealed[:0] }

// add appends a packet. src and off locate its payload.
func (b *batch) add(p *packet, src *netRegion, off int64) {
	b.heads[b.used] = *p
	b.segments[b.n] = segment{b: plain.Bytes(&b.heads[b.used])}
	b.used++
	b.n++
	if p.length > 0 {
		b.segments[b.n] = segment{src.mem[off : off+int64(p.length)], src}
		b.n++
	}
}

// seal replaces the segments by one with the encrypted records.
func (b *batch) seal(w *line) error {
	for i := range b.n {
		s := &b.segments[i]
		if s.src != nil && !s.src.enter() {
			return errSource
		}
		b.sealed = w.out.Seal(b.sealed, w.nOut, s.b, nil)
		w.nOut++
		if s.src != nil {
			s.src.leave()
		}
	}
	clear(b.segments[:b.n])
	b.segments[0] = segment{b: b.sealed}
	b.n = min(b.n, 1)
	return nil
}

var errSource = fmt.Errorf("tcp: put: %w: its source was closed before the put was done", transport.ErrBounds)

// write sends what the socket takes. again means that the socket is full.
func (b *batch) write(w *line) (again bool, err error) {
	k := 0
	for i := b.at; i < b.n; i++ {
		s := &b.segments[i]
		if s.src != nil && !s.src.enter() {
			err = errSource
			break
		}
		b.iov[k].Base = unsafe.SliceData(s.b)
		b.iov[k].SetLen(len(s.b))
		k++
	}
	n := 0
	if err == nil {
		b.msg.Iov = &b.iov[0]
		b.msg.SetIovlen(k)
		n, err = w.sendmsg(&b.msg)
	}
	for i := range k {
		if s := &b.segments[b.at+i]; s.src != nil {
			s.src.leave()
		}
	}
	if err == unix.EAGAIN {
		return true, nil
	}
	for n > 0 {
		s := &b.segments[b.at]
		m := min(n, len(s.b))
		s.b = s.b[m:]
		n -= m
		if len(s.b) == 0 {
			*s = segment{}
			b.at++
		}
	}
	return false, err
}

// sendmsg is one system call that does not block.
func (w *line) sendmsg(m *unix.Msghdr) (n int, err error) {
	ctl := w.raw.Control(func(fd uintptr) {
		for {
			r, _, e := unix.Syscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(m)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if e == unix.EINTR {
				continue
			}
			if n = int(r); e != 0 {
				n, err = 0, e
			}
			return
		}
	})
	if ctl != nil {
		return 0, ctl
	}
	return n, err
}

// pump sends until there is nothing to send or the socket is full, which sets blocked. The caller holds mu, and line is
// not nil.
func (l *lane) pump() error {
	for {
		if l.out.empty() {
			if err := l.fill(); err != nil {
				return err
			}
			if l.out.empty() {
				return nil
			}
			l.sent = time.Now()
		}
		again, err := l.out.write(l.line)
		if l.blocked = again; again || err != nil {
			return err
		}
	}
}

// striped reports whether the lane takes packets of large puts: every lane does, except the first if there are others.
func (l *lane) striped() bool { return l.index > 0 || l.peer.count.Load() == 1 }

// fill makes the next batch: packets without a number, then packets of puts.
func (l *lane) fill() error {
	b := &l.out
	b.reset()
	unsent := l.base + uint64(len(l.queue)) - l.next
	if n := l.received.Load(); l.ackNow || n != l.acknowledged && unsent > 0 {
		b.add(&packet{kind: packetAck, value: n}, nil, 0)
		l.acknowledged, l.ackNow = n, false
	}
	if l.beat {
		b.add(&packet{kind: packetBeat}, nil, 0)
		l.beat = false
	}
	for bytes := 0; b.used < batchPackets-3 && bytes < batchBytes; l.next++ {
		if l.next == l.base+uint64(len(l.queue)) {
			if !l.striped() {
				break
			}
			f, ok := l.peer.bulk.take()
			if !ok {
				break
			}
			l.queue = append(l.queue, f)
		}
		f := &l.queue[l.next-l.base]
		b.add(&f.packet, f.src, f.srcOff)
		bytes += int(f.length)
	}
	// The urge follows the last packet that it covers. Packets of large puts that no lane has taken yet may still be sent
	// on this lane.
	if l.urging && l.next == l.base+uint64(len(l.queue)) && (!l.striped() || l.peer.bulk.empty()) {
		if len(l.queue) > 0 {
			b.add(&packet{kind: packetUrge}, nil, 0)
		}
		l.urging = false
	}
	if l.refused != 0 {
		b.add(&packet{kind: packetRefuse, status: l.refused}, nil, 0)
		l.refused = 0
	}
	if l.leave {
		b.add(&packet{kind: packetBye}, nil, 0)
		l.leave = false
	}
	if b.n > 0 && l.line.out != nil {
		return b.seal(l.line)
	}
	return nil
}
