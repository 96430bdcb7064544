package tcp

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/aead"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
)

const (
	// ackBytes and ackPackets are how much is applied before an acknowledgement is sent without being asked for.
	ackBytes   = 512 << 10
	ackPackets = 64
	// peek is how much of the following packets is read behind a payload: their headers.
	peek = 2 << 10
	// maxReads bounds the system calls of one step, so that one connection does not keep others waiting.
	maxReads = 16
)

// reader applies the packets of one connection, in order. One goroutine at a time calls step:
//
//  1. Take what the buffer holds: headers, and payloads, which are copied.
//  2. Read: first the rest of the current payload directly into its region, then the next headers into the buffer.
//  3. When a packet is complete, count it as applied, and the put's immediate if it was the put's last packet.
//  4. Acknowledge when asked, when a put is whole whose sender waits for it, or after half a megabyte.
type reader struct {
	lane *lane
	line *line
	over chan error // of the poller: why the connection ended

	buf  []byte
	r, w int // buf[r:w] has arrived and is not consumed

	active bool   // a payload is being received
	packet packet // the one of the payload
	dst    []byte // the rest of the payload's place
	region *netRegion

	full            bool // step ended with more to read
	polled          bool // step is called again while there is something to read, an end of the stream included
	packets, nbytes int  // applied since the last acknowledgement
	iov             [2]unix.Iovec
	asked           int // bytes that the last readv asked for
}

func newReader(l *lane, w *line) *reader {
	// The packets of one call of send, if they have up to 64 KiB together: they take one system call.
	size := 64<<10 + batchPackets*packetSize
	if w.in != nil {
		size = maxPiece + 64<<10
	}
	return &reader{lane: l, line: w, buf: make([]byte, size)}
}

var errBye = errors.New("the peer says goodbye")

// refusedError is the peer's refusal of a packet.
type refusedError struct{ error }

// run reads until the connection ends.
func (r *reader) run() error {
	var err error
	ctl := r.line.raw.Read(func(fd uintptr) bool {
		for {
			if err = r.step(fd); err != unix.EAGAIN {
				return true
			}
			if !r.full {
				return false
			}
		}
	})
	return cmp.Or(ctl, err)
}

// step applies the packets that have arrived. It returns EAGAIN if the connection lives.
func (r *reader) step(fd uintptr) error {
	for i := 0; ; i++ {
		if err := r.consume(); err != nil {
			return err
		}
		if r.full = i == maxReads; r.full {
			return unix.EAGAIN
		}
		n, err := r.readv(fd)
		if err != nil {
			return err
		}
		if n == 0 {
			return io.EOF
		}
		r.lane.lastData.Store(int64(wait.Now()))
		short := r.polled && n < r.asked
		k := 0
		if r.line.in == nil {
			k = min(n, len(r.dst))
			r.dst = r.dst[k:]
		}
		r.w += n - k
		if short { // the socket was empty
			return cmp.Or(r.consume(), error(unix.EAGAIN))
		}
	}
}

// consume applies the packets that are complete and copies the payload that has arrived in the buffer.
func (r *reader) consume() error {
	seal := 0
	if r.line.in != nil {
		seal = aead.Overhead
	}
	for {
		switch {
		case r.active && seal == 0:
			n := min(len(r.dst), r.w-r.r)
			if err := r.copy(r.dst[:n], r.buf[r.r:r.r+n]); err != nil {
				return err
			}
			r.r += n
			if r.dst = r.dst[n:]; len(r.dst) > 0 {
				r.r, r.w = 0, 0
				return nil
			}
			r.applied()
			continue
		case r.active:
			b, ok := r.take(len(r.dst) + seal)
			if !ok {
				return nil
			}
			plain, err := r.open(b)
			if err == nil {
				err = r.copy(r.dst, plain)
			}
			if err != nil {
				return err
			}
			r.applied()
			continue
		}
		b, ok := r.take(packetSize + seal)
		if !ok {
			return nil
		}
		if seal > 0 {
			var err error
			if b, err = r.open(b); err != nil {
				return err
			}
		}
		if err := r.dispatch(b); err != nil {
			return err
		}
	}
}

// take returns the next n bytes, if they are all there. If not, it makes room for them.
func (r *reader) take(n int) ([]byte, bool) {
	if r.w-r.r >= n {
		b := r.buf[r.r : r.r+n]
		r.r += n
		return b, true
	}
	if r.r == r.w || len(r.buf)-r.r < max(n, len(r.buf)/4) {
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
	return nil, false
}

func (r *reader) open(b []byte) ([]byte, error) {
	plain, err := r.line.in.Open(r.line.nIn, b, nil)
	r.line.nIn++
	return plain, err
}

func (r *reader) dispatch(b []byte) error {
	p, err := parsePacket(b)
	if err != nil {
		return &packetError{statusProtocol, err}
	}
	switch p.kind {
	case packetPut:
		return r.begin(&p)
	case packetAck:
		if !r.lane.acked(p.value) {
			return &packetError{statusProtocol, fmt.Errorf("%w: an acknowledgement of %d", errFrame, p.value)}
		}
	case packetUrge:
		r.acknowledge()
	case packetBye:
		return errBye
	case packetRefuse:
		return &refusedError{refusal(p.status)}
	case packetJoin:
		return &packetError{statusProtocol, fmt.Errorf("%w: a join on a connection that has joined", errFrame)}
	}
	return nil
}

// begin finds the place of a put's packet.
func (r *reader) begin(p *packet) error {
	r.packet = *p
	if p.length == 0 {
		r.applied()
		return nil
	}
	if r.region == nil || r.region.id != p.region {
		r.region = r.lane.peer.port.region(p.region)
	}
	if r.region == nil {
		return &packetError{statusRegion, fmt.Errorf("%w: no region %#x", transport.ErrBounds, p.region)}
	}
	if !inBounds(p.offset, uint64(p.length), int64(len(r.region.mem))) {
		return &packetError{statusBounds, fmt.Errorf("%w: %d bytes at offset %d of a region of %d", transport.ErrBounds,
			p.length, p.offset, len(r.region.mem))}
	}
	r.active, r.dst = true, r.region.mem[p.offset:p.offset+uint64(p.length)]
	return nil
}

// applied counts the current packet, whose bytes are visible. The packets of a large put arrive on several lanes, so
// its sender needs an acknowledgement on each of them.
func (r *reader) applied() {
	p := &r.packet
	r.active, r.dst = false, nil
	whole := p.parts == 1 || r.lane.peer.parts.arrived(p.value, p.parts)
	if whole {
		r.lane.peer.Arrive(uint32(p.imm))
	}
	// After the arrival: other goroutines acknowledge this number as soon as it grows, and a flush means arrival.
	r.lane.received.Add(1)
	r.packets++
	r.nbytes += int(p.length)
	if whole && p.status != 0 || r.packets >= ackPackets || r.nbytes >= ackBytes {
		r.acknowledge()
	}
	if whole && p.status != 0 && p.parts > 1 {
		for _, l := range r.lane.peer.lanes() {
			l.acknowledge()
		}
	}
}

func (r *reader) acknowledge() {
	r.packets, r.nbytes = 0, 0
	r.lane.acknowledge()
}

var errRevoked = &packetError{statusRegion, fmt.Errorf("%w: the region was closed", transport.ErrBounds)}

func (r *reader) copy(dst, b []byte) error {
	if !r.region.enter() {
		return errRevoked
	}
	copy(dst, b)
	r.region.leave()
	return nil
}

// readv is one system call that does not block.
func (r *reader) readv(fd uintptr) (int, error) {
	free := r.buf[r.w:]
	k := 0
	if r.line.in == nil && len(r.dst) > 0 {
		if !r.region.enter() {
			return 0, errRevoked
		}
		defer r.region.leave()
		r.iov[0].Base = unsafe.SliceData(r.dst)
		r.iov[0].SetLen(len(r.dst))
		free = free[:min(peek, len(free))]
		k = 1
	}
	r.iov[k].Base = unsafe.SliceData(free)
	r.iov[k].SetLen(len(free))
	r.asked = len(free)
	if k > 0 {
		r.asked += len(r.dst)
	}
	for {
		n, _, e := unix.Syscall(unix.SYS_READV, fd, uintptr(unsafe.Pointer(&r.iov[0])), uintptr(k+1))
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}
