package primitive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/hostreduce"
)

// SwitchChannel reduces from, and broadcasts to, the same range of every rank's memory. It uses unicast: a reduction
// loads from every peer, a broadcast stores to every peer; it does not use a multicast object. Ranks must synchronise
// before and after by other channels.
type SwitchChannel struct {
	ctx    *Context
	peers  []*RegisteredMemory // by rank; the caller owns the entry of this rank
	rank   int
	table  device.Allocation
	handle SwitchChannelHandle
	once   sync.Once
	err    error
}

// NewSwitchChannel makes a channel over mem, local memory of dev, and the memories of the other ranks. Every rank of
// comm calls it with memory of the same size; tag separates several channels.
func NewSwitchChannel(ctx context.Context, comm *Communicator, dev device.Device, mem *RegisteredMemory,
	tag int) (*SwitchChannel, error) {
	const op = "switch channel"
	if comm == nil || dev == nil || mem == nil || !mem.Local() {
		return nil, invalid(op, "communicator, device and local memory must be there")
	}
	n, rank := comm.WorldSize(), comm.Rank()
	received := make([]*Future[*RegisteredMemory], n)
	var sent []*Future[struct{}]
	for r := range n {
		if r != rank {
			sent = append(sent, comm.SendMemory(mem, r, tag))
			received[r] = comm.RecvMemory(r, tag)
		}
	}
	peers := make([]*RegisteredMemory, n)
	var errs []error
	for _, f := range sent {
		errs = append(errs, f.wait(ctx))
	}
	for r, f := range received {
		if f == nil {
			continue
		}
		var err error
		peers[r], err = f.Get(ctx)
		errs = append(errs, err)
	}
	s := &SwitchChannel{ctx: comm.ctx, peers: peers, rank: rank}
	peers[rank] = mem
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.build(ctx, dev, mem.size); err != nil {
		return nil, errors.Join(comm.ctx.wrap(err, op, NoRank), s.Close())
	}
	return s, nil
}

// build maps every rank's memory and writes the table of addresses to the device.
func (s *SwitchChannel) build(ctx context.Context, dev device.Device, size int64) error {
	ctx, cancel := s.ctx.bounded(ctx)
	defer cancel()
	var table []byte
	for r, m := range s.peers {
		if m.size != size {
			return fmt.Errorf("%w: rank %d brings %d bytes, this rank %d", ErrInvalid, r, m.size, size)
		}
		p, err := m.mapOn(ctx, dev)
		if err != nil {
			return fmt.Errorf("memory of rank %d: %w", r, err)
		}
		table = binary.LittleEndian.AppendUint64(table, uint64(p))
	}
	abort, err := s.ctx.AbortBlock(dev)
	if err != nil {
		return err
	}
	if s.table, err = dev.Alloc(int64(len(table))); err != nil {
		return err
	}
	s.handle = SwitchChannelHandle{Peers: s.table.Ptr(), NRanks: uint32(len(s.peers)), Rank: uint32(s.rank),
		Size: uint64(size), Abort: abort}
	if err := dev.CopyIn(s.table.Ptr(), table); err != nil {
		return err
	}
	return s.ctx.own(s)
}

// DeviceHandle returns the handle for kernels.
func (s *SwitchChannel) DeviceHandle() SwitchChannelHandle { return s.handle }

// Close unmaps the peers' memories.
func (s *SwitchChannel) Close() error {
	s.once.Do(func() {
		s.ctx.disown(s)
		var errs []error
		for r, m := range s.peers {
			if r != s.rank && m != nil {
				errs = append(errs, m.Close())
			}
		}
		s.err = errors.Join(append(errs, device.CloseAll(s.table))...)
	})
	return s.err
}

// The Go twin of goccl::SwitchChannelHandle, for host kernels.

// Peer returns the address of rank r's memory.
func (h *SwitchChannelHandle) Peer(r int) device.Ptr {
	return device.Ptr(word64(h.Peers.Add(int64(r) * 8)).Load())
}

// Reduce writes the reduction of elements [first, first+count) of every rank's memory to out. It reduces in rank order,
// so that every rank gets the same bits. It is cooperative: thread tid of nthreads does its part.
func (h *SwitchChannelHandle) Reduce(out device.Ptr, first, count int64, t datatype.Type, op datatype.Op, tid,
	nthreads int) error {
	size := t.Size()
	lo, hi := part(count, tid, nthreads)
	if all := int64(h.Size) / size; first < 0 || count < 0 || count > all || first > all-count {
		return invalid("switch channel reduce", "%d elements from %d on, of %d", count, first, all)
	}
	if lo == hi {
		return nil
	}
	srcs := make([][]byte, h.NRanks)
	for r := range srcs {
		srcs[r] = device.Bytes(h.Peer(r).Add((first+lo)*size), (hi-lo)*size)
	}
	return hostreduce.Reduce(device.Bytes(out.Add(lo*size), (hi-lo)*size), srcs, t, op, [8]byte{}, len(srcs))
}

// Broadcast copies bytes of src to offset of every rank's memory, starting with the rank after this one. It is
// cooperative.
func (h *SwitchChannelHandle) Broadcast(offset int64, src device.Ptr, bytes int64, tid, nthreads int) error {
	if offset < 0 || bytes < 0 || offset > int64(h.Size)-bytes {
		return invalid("switch channel broadcast", "%d bytes at offset %d of %d", bytes, offset, h.Size)
	}
	for k := 1; k <= int(h.NRanks); k++ {
		copyPart(h.Peer((int(h.Rank)+k)%int(h.NRanks)).Add(offset), src, bytes, tid, nthreads)
	}
	return nil
}

// ReduceElement returns the sum of element index over all ranks, in rank order.
func ReduceElement[T Element](h *SwitchChannelHandle, index int64) (sum T) {
	for r := range int(h.NRanks) {
		c := MemoryChannelHandle{Dst: h.Peer(r)}
		sum += Read[T](&c, index)
	}
	return sum
}

// BroadcastElement stores v as element index of every rank's memory.
func BroadcastElement[T Element](h *SwitchChannelHandle, index int64, v T) {
	for r := range int(h.NRanks) {
		c := MemoryChannelHandle{Dst: h.Peer(r)}
		Write(&c, index, v)
	}
}
