package nvlink

import (
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/internal/plain"
)

// transfer is one message of a batch. Empty messages are not sent.
type transfer struct {
	send  bool
	peer  int
	ptr   device.Ptr
	bytes int64
}

// batch holds the messages of one call and, during its launch, lists of them by peer and direction. Its memory is
// reused.
type batch struct {
	all      []transfer
	next     []int32 // by message: the next one of its list, or -1
	head     [2 * maxRanks]int32
	tail     [2 * maxRanks]int32
	more     bool       // sort found messages of the other class
	own      [2][]int32 // messages of the rank to itself, small and large, in pairs: send, receive
	from     int64      // the minimum size of a message that goes as a stream
	channels int        // of a stream, if there is room for them
}

func (b *batch) reset() { b.all = b.all[:0] }

func (b *batch) send(peer int, ptr device.Ptr, bytes int64) {
	b.all = append(b.all, transfer{true, peer, ptr, bytes})
}

func (b *batch) recv(peer int, ptr device.Ptr, bytes int64) {
	b.all = append(b.all, transfer{false, peer, ptr, bytes})
}

// sort lists the non-empty messages of the class to and from peers, in order, and reports whether there are any. It
// sets more if there are messages of the other class.
func (b *batch) sort(rank int, large bool) bool {
	b.next = b.next[:0]
	for i := range b.head {
		b.head[i] = -1
	}
	found := false
	b.more = false
	for i := range b.all {
		t := &b.all[i]
		b.next = append(b.next, -1)
		if t.peer == rank || t.bytes == 0 {
			continue
		}
		if t.bytes >= b.from != large {
			b.more = true
			continue
		}
		q := 2*t.peer + plain.Bit[int](t.send)
		if b.head[q] < 0 {
			b.head[q] = int32(i)
		} else {
			b.next[b.tail[q]] = int32(i)
		}
		b.tail[q], found = int32(i), true
	}
	return found
}

// pair matches a rank's messages to itself: the k-th send with the k-th receive.
func (b *batch) pair(rank int) error {
	b.own[0], b.own[1] = b.own[0][:0], b.own[1][:0]
	next := 0
	for i := range b.all {
		t := &b.all[i]
		if t.peer != rank || t.send {
			continue
		}
		for next < len(b.all) && (b.all[next].peer != rank || !b.all[next].send) {
			next++
		}
		if next == len(b.all) {
			return fmt.Errorf("%w: a receive from the rank itself has no send in its group", collective.ErrInvalidUsage)
		}
		src := &b.all[next]
		if src.bytes != t.bytes {
			return fmt.Errorf("%w: the rank sends itself %d bytes and receives %d", collective.ErrMismatch, src.bytes, t.bytes)
		}
		if t.bytes > 0 && src.ptr != t.ptr {
			class := plain.Bit[int](t.bytes >= b.from)
			b.own[class] = append(b.own[class], int32(next), int32(i))
		}
		next++
	}
	for ; next < len(b.all); next++ {
		if b.all[next].peer == rank && b.all[next].send {
			return fmt.Errorf("%w: a send to the rank itself has no receive in its group", collective.ErrInvalidUsage)
		}
	}
	return nil
}

// roundMessages is how many messages of one peer and direction go into one launch. Both sides of a message count the
// same way, so a message and its match are in launches of the same number.
func roundMessages(n int) int { return max(1, p2pMaxMessages/(2*n)) }

// streamFrom is the size from which a message goes through point_to_point_stream, peer after peer and straight into
// mapped buffers, rather than as packets to all peers at once. Both sides decide by the size alone.
const streamFrom = 8 << 20

// streamSliceFrom is the same bound for the slices of an all-gather or all-to-all. Below it, the packets of their
// kernels, which go to all peers at once, are as fast as streams and need no step per peer.
const streamSliceFrom = 16 << 20

// slowStreamFrom is both bounds without NVLink: there packets are LL, and their doubled bytes must cost less than the
// steps of a stream.
const slowStreamFrom = 128 << 10

func (e *Engine) sliceFrom() int64 {
	if e.table.noLL128 {
		return slowStreamFrom
	}
	return streamSliceFrom
}

// messagesBy makes later messages streams of v's channels, if v is a stream; else large messages are streams.
func (e *Engine) messagesBy(v variant) {
	b := &e.batch
	b.from, b.channels = streamFrom, streamChannels
	switch {
	case v.protocol == stream:
		b.from, b.channels = 1, v.threads
	case e.table.noLL128:
		b.from = slowStreamFrom
	case e.mapped:
		b.channels = streamDefault
	}
}

// transfers launches e.batch. All messages progress together; those between two ranks in one direction match in order.
//
//  1. Pair the rank's messages to itself. They are copied together with the messages of their class.
//  2. Send small messages as packets, in several launches if their lists exceed the parameters of one.
//  3. Send large messages as streams, likewise. They follow the small ones on every rank.
func (e *Engine) transfers(s *cuda.Stream) error {
	b := &e.batch
	if err := b.pair(e.rank); err != nil {
		return err
	}
	own := b.own[0]
	for more := b.sort(e.rank, false); more || len(own) > 0; {
		var err error
		if more, own, err = e.launchPackets(s, own); err != nil {
			return err
		}
	}
	own = b.own[1]
	for more := b.more && b.sort(e.rank, true); more || len(own) > 0; {
		var err error
		if more, own, err = e.launchStream(s, own); err != nil {
			return err
		}
	}
	return nil
}

// lists points to the message lists in the parameters of a launch.
type lists struct {
	*p2pHead
	lane    []lane
	message []message
	used    int // of message
}

// peers returns the other ranks of the lanes.
func (a *lists) peers(rank int) (all ranks) {
	for i := range a.lane[:a.lanes] {
		all |= 1 << a.lane[i].peer
	}
	return all &^ (1 << rank)
}

// list moves the first messages of each list into the lanes of a. Every rank sends to the next rank first and receives
// from the previous rank first. more reports whether messages are left.
func (e *Engine) list(a *lists) (aligned, more bool) {
	b, lanes, per := &e.batch, 0, roundMessages(e.size)
	aligned = true
	most := e.call.lane(e.p2pChannels, e.size)
	a.width = uint32(most)
	for k := 1; k < e.size; k++ {
		for dir := range 2 {
			peer := e.rank + k
			if dir == 0 {
				peer = e.rank - k + e.size
			}
			if peer >= e.size {
				peer -= e.size
			}
			q := 2*peer + dir
			i := b.head[q]
			if i < 0 {
				continue
			}
			l := lane{peer: uint16(peer), send: uint8(dir), first: uint16(a.used)}
			for ; i >= 0 && int(l.count) < per; i = b.next[i] {
				t := &b.all[i]
				a.message[a.used] = message{uint64(t.ptr), uint64(t.bytes)}
				aligned = aligned && (int64(t.ptr)|t.bytes)&7 == 0
				a.used++
				l.count++
				l.channels = max(l.channels, uint8(min(most, e.channels(t.bytes))))
			}
			b.head[q] = i
			more = more || i >= 0
			a.lane[lanes] = l
			lanes++
		}
	}
	a.lanes = uint32(lanes)
	return aligned, more
}

// channels is how many channels a packet message would use if there were enough.
func (e *Engine) channels(bytes int64) int64 {
	spread := int64(p2pSpreadBytes)
	if e.table.noLL128 {
		spread = p2pSpreadLL
	}
	return (bytes + spread - 1) / spread
}

// listOwn adds a lane with the longest prefix of own that fits. It returns the bytes of these pairs and the rest of
// own.
func (e *Engine) listOwn(a *lists, own []int32) (bytes int64, rest []int32) {
	b, l := &e.batch, lane{peer: uint16(e.rank), first: uint16(a.used)}
	for len(own) > 0 && a.used+2 <= len(a.message) {
		src, dst := &b.all[own[0]], &b.all[own[1]]
		a.message[a.used], a.message[a.used+1] = message{uint64(src.ptr), uint64(src.bytes)},
			message{uint64(dst.ptr), uint64(dst.bytes)}
		a.used += 2
		l.count += 2
		bytes += src.bytes
		own = own[2:]
	}
	if l.count > 0 {
		l.channels = uint8(min(e.call.lane(e.p2pChannels, e.size), e.channels(bytes)))
		a.lane[a.lanes] = l
		a.lanes++
	}
	return bytes, own
}

// p2pThreads is the size of a block, of which an SM holds three: see terms.p2pChannels.
const p2pThreads = 256

func (e *Engine) launchPackets(s *cuda.Stream, own []int32) (more bool, rest []int32, err error) {
	a, few, raw := lists{p2pHead: &e.p2p.p2pHead, lane: e.p2p.lane[:], message: e.p2p.message[:]}, 0, launcher.Raw(e.p2p)
	if len(e.batch.all) <= p2pFewMessages {
		a, few, raw = lists{p2pHead: &e.few.p2pHead, lane: e.few.lane[:], message: e.few.message[:]}, 1, launcher.Raw(e.few)
	}
	aligned, more := e.list(&a)
	_, rest = e.listOwn(&a, own)
	if err = e.need(pieceMessages, a.peers(e.rank)); err != nil {
		return false, nil, err
	}
	f := e.kernels.aligned[few]
	if !aligned {
		f = e.kernels.unaligned[few]
	}
	blocks := 0
	for i := range a.lane[:a.lanes] {
		blocks += int(a.lane[i].channels)
	}
	return more, rest, e.submit(s, f, blocks, p2pThreads, raw)
}

// launchStream launches a stream, whose blocks take whole SMs where there are mapped buffers.
func (e *Engine) launchStream(s *cuda.Stream, own []int32) (more bool, rest []int32, err error) {
	x := e.stream
	a := lists{p2pHead: &x.p2pHead, lane: x.lane[:], message: x.message[:]}
	_, more = e.list(&a)
	if err = e.need(pieceStreams, a.peers(e.rank)); err == nil && e.mapped {
		err = e.tell(s, &a)
	}
	if err != nil {
		return false, nil, err
	}
	_, rest = e.listOwn(&a, own)
	width := max(1, min(int64(e.batch.channels), int64(e.streams), e.call.most/2))
	x.width = uint32(width)
	cfg := cuda.Launch1D(int(2*width), streamThreads, 0)
	cfg.Shared = uint32(x.stages * streamStage)
	return more, rest, s.LaunchInOrder(e.kernels.stream, &cfg, launcher.Raw(x), e.launcher.Order)
}

// tell fills in where the senders have mapped the places of the received messages.
func (e *Engine) tell(s *cuda.Stream, a *lists) (err error) {
	for _, l := range a.lane[:a.lanes] {
		for i := l.first; l.send == 0 && i < l.first+l.count && err == nil; i++ {
			var at [maxRanks]uint64
			_, err = e.known(s, device.Ptr(a.message[i].address), int64(a.message[i].bytes), at[:e.size])
			e.stream.there[i] = at[l.peer]
		}
	}
	return err
}

func (e *Engine) sendRecv(reqs []collective.Request, s *cuda.Stream) error {
	e.batch.reset()
	several := false
	for i := range reqs {
		r := &reqs[i]
		if r.Collective == collective.Send {
			e.batch.send(r.Peer, r.Send, r.Bytes())
		} else {
			e.batch.recv(r.Peer, r.Recv, r.Bytes())
		}
		several = several || r.Stream.Raw() != s.Raw()
	}
	if !several {
		return e.transfers(s)
	}
	if err := sameCapture(reqs, s); err != nil {
		return err
	}
	if err := meet(reqs, s, func(o *cuda.Stream) error { return device.Join(s, o) }); err != nil {
		return err
	}
	if err := e.transfers(s); err != nil {
		return err
	}
	return meet(reqs, s, func(o *cuda.Stream) error { return device.Join(o, s) })
}

// sameCapture refuses a group unless all its streams are captured into one graph, or none is captured: an event between
// them would invalidate the capture.
func sameCapture(reqs []collective.Request, s *cuda.Stream) error {
	status, id, err := s.CaptureStatus()
	if err != nil {
		return err
	}
	return meet(reqs, s, func(o *cuda.Stream) error {
		other, otherID, err := o.CaptureStatus()
		if err == nil && (other != status || status != cuda.CaptureNone && otherID != id) {
			err = fmt.Errorf("%w: one stream of the group is being captured and another is not, or into another graph: "+
				"capture all of a group's streams together", collective.ErrInvalidUsage)
		}
		return err
	})
}

// meet calls do with every stream of the requests except s.
func meet(reqs []collective.Request, s *cuda.Stream, do func(*cuda.Stream) error) error {
	for i := range reqs {
		if o, ok := reqs[i].Stream.(*cuda.Stream); ok && o.Raw() != s.Raw() {
			if err := do(o); err != nil {
				return err
			}
		}
	}
	return nil
}
