package nvlink

import (
	"fmt"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// transfer is one message of a batch. Only messages with bytes travel.
type transfer struct {
	send  bool
	peer  int
	ptr   device.Ptr
	bytes int64
}

// roundMessages is how many messages of one peer and direction go into one launch. Both sides of a message count it the same way, so a
// message and its match are in the launches of the same number.
func roundMessages(n int) int { return max(1, p2pMaxMessages/(2*n)) }

// streamFrom is the size from which a message goes by point_to_point_stream, piece by piece and peer after peer, rather than as packets to
// all peers at once. Both sides decide by the size alone.
const streamFrom = 2 << 20

// transfers launches a batch: all messages progress together; those between two ranks in one direction match in order. Large messages are
// launched after the small ones, on every rank.
func (e *Engine) transfers(batch []transfer, s *cuda.Stream) error {
	small, large := batch, []transfer(nil)
	for _, t := range batch {
		if t.bytes >= streamFrom {
			large = append(large, t)
		}
	}
	if len(large) > 0 {
		small = nil
		for _, t := range batch {
			if t.bytes < streamFrom {
				small = append(small, t)
			}
		}
	}
	if err := e.rounds(small, s, e.launchPackets); err != nil || len(large) == 0 {
		return err
	}
	return e.rounds(large, s, e.launchStream)
}

// rounds splits a batch into launches that fit the kernels' lists.
func (e *Engine) rounds(batch []transfer, s *cuda.Stream, launch func([]transfer, *cuda.Stream) error) error {
	var ordinal [2 * maxRanks]int // of the next message, by peer and direction
	round := make([][]transfer, 1)
	per := roundMessages(e.size)
	for _, t := range batch {
		q := 2 * t.peer
		if t.send {
			q++
		}
		k := ordinal[q] / per
		ordinal[q]++
		for len(round) <= k {
			round = append(round, nil)
		}
		round[k] = append(round[k], t)
	}
	for _, r := range round {
		if err := launch(r, s); err != nil {
			return err
		}
	}
	return nil
}

// list fills the lanes and messages of a: every rank sends to the next rank first and receives from the one before it first.
func (e *Engine) list(a *p2pArgs, batch []transfer) (messages int, aligned bool) {
	lanes := 0
	aligned = true
	for k := 1; k < e.size; k++ {
		for dir := range 2 {
			peer := (e.rank + k) % e.size
			if dir == 0 {
				peer = (e.rank - k + e.size) % e.size
			}
			l := lane{peer: uint16(peer), send: uint8(dir), first: uint16(messages)}
			for _, t := range batch {
				if t.peer != peer || t.send != (dir == 1) || t.bytes == 0 {
					continue
				}
				a.message[messages] = message{uint64(t.ptr), uint64(t.bytes)}
				aligned = aligned && (int64(t.ptr)|t.bytes)&7 == 0
				messages++
				l.count++
				pieces := (t.bytes + p2pPieceBytes - 1) / p2pPieceBytes
				l.channels = max(l.channels, uint8(min(int64(channelsOf(p2pChannels, e.size)), pieces)))
			}
			if l.count > 0 {
				a.lane[lanes] = l
				lanes++
			}
		}
	}
	a.lanes = uint32(lanes)
	return messages, aligned
}

// p2pThreads leaves room for all blocks of the largest batch on the device at once.
const p2pThreads = 256

func (e *Engine) launchPackets(batch []transfer, s *cuda.Stream) error {
	if err := e.selfTransfers(batch, s); err != nil {
		return err
	}
	a := e.p2p
	messages, aligned := e.list(a, batch)
	if messages == 0 {
		return nil
	}
	name := "point_to_point_words"
	if !aligned {
		name = "point_to_point_bytes"
	}
	blocks := 0
	for _, l := range a.lane[:a.lanes] {
		blocks += int(l.channels)
	}
	return e.launchP2P(name, a, cuda.Launch1D(blocks, p2pThreads, 0), s)
}

// Blocks that copy a rank's messages to itself beside the streams, and threads of every block: one where copies are bulk, all where not.
const (
	streamCopiers = 16
	streamThreads = 512
)

func (e *Engine) launchStream(batch []transfer, s *cuda.Stream) error {
	a := e.stream
	messages, _ := e.list(a, batch)
	own := lane{peer: uint16(e.rank), first: uint16(messages)}
	err := pairSelf(batch, e.rank, func(dst, src device.Ptr, n int64) error {
		if messages+2 > p2pMaxMessages {
			return s.Copy(dst, src, n)
		}
		a.message[messages], a.message[messages+1] = message{uint64(src), uint64(n)}, message{uint64(dst), uint64(n)}
		messages += 2
		own.count += 2
		return nil
	})
	if err != nil || messages == 0 {
		return err
	}
	blocks := 2 * streamChannels
	if own.count > 0 {
		a.lane[a.lanes] = own
		a.lanes++
		blocks += streamCopiers
	}
	return e.launchP2P("point_to_point_stream", a, cuda.Launch1D(blocks, streamThreads, e.streamShared), s)
}

func (e *Engine) launchP2P(name string, a *p2pArgs, cfg cuda.Config, s *cuda.Stream) error {
	f, err := e.function([]byte(name))
	if err != nil {
		return err
	}
	return s.LaunchRaw(f, &cfg, params(a))
}

// selfTransfers copies messages of the rank to itself.
func (e *Engine) selfTransfers(batch []transfer, s *cuda.Stream) error {
	return pairSelf(batch, e.rank, s.Copy)
}

// pairSelf matches a rank's messages to itself, the k-th send with the k-th receive, and hands what has to move to copy.
func pairSelf(batch []transfer, rank int, move func(dst, src device.Ptr, n int64) error) error {
	next := 0
	for _, t := range batch {
		if t.peer != rank || t.send {
			continue
		}
		for next < len(batch) && (batch[next].peer != rank || !batch[next].send) {
			next++
		}
		if next == len(batch) {
			return fmt.Errorf("%w: a receive from the rank itself has no send in its group", algorithm.ErrInvalidUsage)
		}
		src := batch[next]
		next++
		if src.bytes != t.bytes {
			return fmt.Errorf("%w: the rank sends itself %d bytes and receives %d", algorithm.ErrMismatch, src.bytes, t.bytes)
		}
		if t.bytes > 0 && src.ptr != t.ptr {
			if err := move(t.ptr, src.ptr, t.bytes); err != nil {
				return err
			}
		}
	}
	for ; next < len(batch); next++ {
		if batch[next].peer == rank && batch[next].send {
			return fmt.Errorf("%w: a send to the rank itself has no receive in its group", algorithm.ErrInvalidUsage)
		}
	}
	return nil
}

func (e *Engine) sendRecv(reqs []algorithm.Request, s *cuda.Stream) error {
	batch := make([]transfer, len(reqs))
	for i := range reqs {
		r := &reqs[i]
		batch[i] = transfer{send: r.Collective == algorithm.Send, peer: r.Peer, ptr: r.Send, bytes: r.Bytes()}
		if !batch[i].send {
			batch[i].ptr = r.Recv
		}
		if o, ok := r.Stream.(*cuda.Stream); ok && o.Raw() != s.Raw() {
			if err := after(s, o); err != nil {
				return err
			}
		}
	}
	if err := e.transfers(batch, s); err != nil {
		return err
	}
	for i := range reqs {
		if o, ok := reqs[i].Stream.(*cuda.Stream); ok && o.Raw() != s.Raw() {
			if err := after(o, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Engine) allToAllV(r *algorithm.Request, s *cuda.Stream) error {
	size := r.Type.Size()
	batch := make([]transfer, 0, 2*e.size)
	for p := range e.size {
		batch = append(batch,
			transfer{true, p, r.Send.Add(r.SendDispls[p] * size), r.SendCounts[p] * size},
			transfer{false, p, r.Recv.Add(r.RecvDispls[p] * size), r.RecvCounts[p] * size})
	}
	return e.transfers(batch, s)
}

func (e *Engine) gather(r *algorithm.Request, s *cuda.Stream) error {
	batch := []transfer{{true, r.Root, r.Send, r.Bytes()}}
	if e.rank == r.Root {
		for p := range e.size {
			batch = append(batch, transfer{false, p, r.Recv.Add(int64(p) * r.Bytes()), r.Bytes()})
		}
	}
	return e.transfers(batch, s)
}

func (e *Engine) scatter(r *algorithm.Request, s *cuda.Stream) error {
	batch := []transfer{{false, r.Root, r.Recv, r.Bytes()}}
	if e.rank == r.Root {
		for p := range e.size {
			batch = append(batch, transfer{true, p, r.Send.Add(int64(p) * r.Bytes()), r.Bytes()})
		}
	}
	return e.transfers(batch, s)
}

// broadcastSplit is the size from which the root sends each byte once and the ranks share the slices among them.
const broadcastSplit = 32 << 10

// broadcast: small, the root sends all to all, (n−1)·N out of one port and one hop. Large, N out of any port and two hops.
func (e *Engine) broadcast(r *algorithm.Request, s *cuda.Stream) error {
	total := r.Bytes()
	if total >= broadcastSplit && e.size > 1 {
		a := e.args
		a.send, a.recv = uint64(r.Send), uint64(r.Recv)
		if e.rank != r.Root {
			a.send = a.recv // ignored, and must not spoil the alignment
		}
		slice := sliceOf(total, int64(e.size-1))
		a.bytes, a.root, a.sendStride, a.recvStride = uint64(total), uint32(r.Root), uint64(slice), 0
		return e.launchMove(s, "broadcast_", variant{protocol: ll128, threads: e.table.pick(r.Collective, total).threads}, slice)
	}
	if e.rank != r.Root {
		return e.transfers([]transfer{{false, r.Root, r.Recv, total}}, s)
	}
	batch := make([]transfer, 0, e.size)
	for p := range e.size {
		if p != r.Root {
			batch = append(batch, transfer{true, p, r.Send, total})
		}
	}
	if r.Send != r.Recv {
		if err := s.Copy(r.Recv, r.Send, total); err != nil {
			return err
		}
	}
	return e.transfers(batch, s)
}
