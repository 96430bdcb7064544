package core

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/moe"
)

// The flags of a dispatch.
const (
	moeQuantize = 1 << iota
	moePowerOfTwo
	moeLists
)

// MoE is a MoE of a communicator.
type MoE struct {
	*goccl.MoE
	c *comm
}

func (s *MoEShape) shape() moe.Shape {
	return moe.Shape{Layout: moe.Layout(s.Layout), Hidden: int(s.Hidden), TopK: int(s.TopK), Experts: int(s.Experts)}
}

func MoEBytes(ranks int32, tokens uint64, s *MoEShape) (uint64, error) {
	if s == nil || ranks < 1 || tokens > 1<<32 {
		return 0, fmt.Errorf("%w: %d tokens on %d ranks", ErrInvalidArgument, tokens, ranks)
	}
	return uint64(moe.SizeFor(int(ranks), int(tokens), s.shape())), nil
}

func MoECreate(a Active, s *MoESize) (*MoE, error) {
	if s == nil || uintptr(s.Size) < unsafe.Sizeof(*s) || s.Bytes > math.MaxInt64 {
		return nil, fmt.Errorf("%w: goccl_moe_size.size is not sizeof(goccl_moe_size), %d", ErrInvalidArgument,
			unsafe.Sizeof(*s))
	}
	m, err := a.inner.NewMoE(context.Background(), moe.Size{Bytes: int64(s.Bytes), Tokens: int(s.Tokens),
		PacketTokens: int(s.PacketTokens), Blocks: int(s.Blocks)})
	return &MoE{m, a.c}, err
}

// MoEDestroy frees an object of MoECreate, and refuses others. Freeing it again is harmless.
func MoEDestroy(h Handle) error {
	if _, err := objects.get(h); err == nil {
		if _, err := Find[*MoE](h); err != nil {
			return err
		}
	}
	return ObjectClose(h)
}

func MoELayout(m *MoE, s MoEShape) (MoEOffsets, error) {
	n, err := m.HandleBytes(s.shape())
	if err != nil {
		return MoEOffsets{}, err
	}
	o := m.Offsets(s.shape())
	return MoEOffsets{uint64(n), uint64(o.Counts), uint64(o.Total), uint64(o.Prefix), uint64(o.Totals),
		uint64(o.Ranges), uintptr(o.Received), uintptr(o.Results)}, nil
}

func MoESetMask(m *MoE, gone []uint8, replicas []int32) error {
	mask := moe.Mask{Gone: make([]bool, len(gone)), Replicas: replicas}
	for r, g := range gone {
		mask.Gone[r] = g != 0
	}
	err := m.SetMask(context.Background(), mask)
	m.c.renewDefaultStream()
	return err
}

func MoEError(m *MoE) error { return m.Err() }

// enqueue calls f with the handle and the stream of an operation.
func (m *MoE) enqueue(a MoEHandle, stream uintptr, f func(moe.Handle, device.Stream) error) error {
	s, err := m.c.stream(stream)
	if err != nil {
		return err
	}
	return f(moe.Handle{Shape: a.Shape.shape(), Memory: device.Ptr(a.Memory), Tokens: int(a.Tokens)}, s)
}

func MoECount(m *MoE, a MoECountArgs) error {
	return m.enqueue(a.Handle, a.Stream, func(to moe.Handle, s device.Stream) error {
		return m.Count(moe.CountArgs{Shape: to.Shape, Tokens: to.Tokens, TopKIndex: device.Ptr(a.TopKIndex),
			Ranks: device.Ptr(a.Ranks), ExpertCounts: device.Ptr(a.Experts), InRank: device.Ptr(a.InRank), Stream: s})
	})
}

func MoENotify(m *MoE, a MoENotifyArgs) error {
	return m.enqueue(a.Handle, a.Stream, func(to moe.Handle, s device.Stream) error {
		return m.Notify(moe.NotifyArgs{Handle: to, TopKIndex: device.Ptr(a.TopKIndex), InRank: device.Ptr(a.InRank),
			Counts: device.Ptr(a.Counts), Stream: s})
	})
}

func MoEDispatch(m *MoE, a MoEDispatchArgs) error {
	return m.enqueue(a.Handle, a.Stream, func(to moe.Handle, s device.Stream) error {
		return m.Dispatch(moe.DispatchArgs{Handle: to, X: device.Ptr(a.X), Type: datatype.Type(a.Type),
			Scales: device.Ptr(a.Scales), Quantize: a.Flags&moeQuantize != 0, PowerOfTwo: a.Flags&moePowerOfTwo != 0,
			Lists: a.Flags&moeLists != 0, Blocks: int(a.Blocks), Index: device.Ptr(a.Index), Weights: device.Ptr(a.Weights),
			RecvX: device.Ptr(a.RecvX), RecvScales: device.Ptr(a.RecvScales), RecvRows: int(a.RecvRows),
			RecvIndex: device.Ptr(a.RecvIndex), RecvWeights: device.Ptr(a.RecvWeights),
			RecvSource: device.Ptr(a.RecvSource), Stream: s})
	})
}

func MoECombine(m *MoE, a MoECombineArgs) error {
	return m.enqueue(a.Handle, a.Stream, func(to moe.Handle, s device.Stream) error {
		return m.Combine(moe.CombineArgs{Handle: to, X: device.Ptr(a.X), Rows: int(a.Rows), Weights: device.Ptr(a.Weights),
			Index: device.Ptr(a.Index), Bias: [2]device.Ptr{device.Ptr(a.Bias[0]), device.Ptr(a.Bias[1])},
			Out: device.Ptr(a.Out), OutWeights: device.Ptr(a.OutWeights),
			Blocks: int(a.Blocks), Stream: s})
	})
}
