package core

import (
	"context"
	"fmt"
	"math"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/moe"
)

// MoESize and the structures below mirror goccl.h, field by field.
type MoESize struct {
	Size           uint32
	PacketTokens   int32
	Bytes          uint64
	Tokens, Blocks uint32
}

// MoEShape is goccl_moe_shape.
type MoEShape struct{ Layout, Hidden, TopK, Experts uint32 }

// MoEOffsets is goccl_moe_offsets.
type MoEOffsets struct{ Bytes, Counts, Total, Prefix, Totals, Ranges uint64 }

// MoEHandle is goccl_moe_handle.
type MoEHandle struct {
	Shape  MoEShape
	Memory uintptr
	Tokens uint64
}

// MoECountArgs is goccl_moe_count_args.
type MoECountArgs struct {
	Handle                                    MoEHandle
	TopKIndex, Ranks, Experts, InRank, Stream uintptr
}

// MoENotifyArgs is goccl_moe_notify_args.
type MoENotifyArgs struct {
	Handle                            MoEHandle
	TopKIndex, InRank, Counts, Stream uintptr
}

// MoEDispatchArgs is goccl_moe_dispatch_args.
type MoEDispatchArgs struct {
	Handle                                     MoEHandle
	X, Scales                                  uintptr
	Type, Flags, Blocks, Reserved              uint32
	Index, Weights, RecvX, RecvScales          uintptr
	RecvRows                                   uint64
	RecvIndex, RecvWeights, RecvSource, Stream uintptr
}

// MoECombineArgs is goccl_moe_combine_args.
type MoECombineArgs struct {
	Handle           MoEHandle
	X                uintptr
	Rows             uint64
	Weights, Index   uintptr
	Bias             [2]uintptr
	Out, OutWeights  uintptr
	Blocks, Reserved uint32
	Stream           uintptr
}

const moeSizeBytes = 24

// The flags of a dispatch.
const (
	moeQuantize = 1 << iota
	moePowerOfTwo
	moeLists
)

// moeObject is a MoE of a communicator.
type moeObject struct {
	*goccl.MoE
	c *comm
}

func (s *MoEShape) shape() moe.Shape {
	return moe.Shape{Layout: moe.Layout(s.Layout), Hidden: int(s.Hidden), TopK: int(s.TopK), Experts: int(s.Experts)}
}

var errNull = fmt.Errorf("%w: the arguments are NULL", ErrInvalidArgument)

// MoEBytes is the size of memory for tokens of a shape.
func MoEBytes(ranks int32, tokens uint64, s *MoEShape) (uint64, error) {
	if s == nil || ranks < 1 || tokens > 1<<32 {
		return 0, fmt.Errorf("%w: %d tokens on %d ranks", ErrInvalidArgument, tokens, ranks)
	}
	return uint64(moe.SizeFor(int(ranks), int(tokens), s.shape())), nil
}

// MoECreate makes the memory for dispatches and combines of a communicator. It is collective.
func MoECreate(h Handle, s *MoESize) (Handle, error) {
	c, inner, err := active(h)
	if err != nil {
		return 0, err
	}
	if s == nil || s.Size < moeSizeBytes || s.Bytes > math.MaxInt64 {
		return 0, fmt.Errorf("%w: goccl_moe_size.size is not sizeof(goccl_moe_size), %d", ErrInvalidArgument, moeSizeBytes)
	}
	m, err := inner.NewMoE(context.Background(), moe.Size{Bytes: int64(s.Bytes), Tokens: int(s.Tokens),
		PacketTokens: int(s.PacketTokens), Blocks: int(s.Blocks)})
	if err != nil {
		return 0, err
	}
	return addObject(&moeObject{m, c}, nil)
}

// MoEDestroy frees an object of NewMoE, and refuses others. Freeing it again is harmless.
func MoEDestroy(h Handle) error {
	if _, err := objects.get(h); err == nil {
		if _, err := objectOf[*moeObject](h); err != nil {
			return err
		}
	}
	return ObjectClose(h)
}

// MoELayout is the layout of handles of a shape.
func MoELayout(h Handle, s *MoEShape) (MoEOffsets, error) {
	if s == nil {
		return MoEOffsets{}, errNull
	}
	m, err := objectOf[*moeObject](h)
	if err != nil {
		return MoEOffsets{}, err
	}
	n, err := m.HandleBytes(s.shape())
	if err != nil {
		return MoEOffsets{}, err
	}
	o := m.Offsets(s.shape())
	return MoEOffsets{uint64(n), uint64(o.Counts), uint64(o.Total), uint64(o.Prefix), uint64(o.Totals),
		uint64(o.Ranges)}, nil
}

// enqueue finds the object and the stream of an operation.
func (a *MoEHandle) enqueue(h Handle, stream uintptr, f func(*moeObject, moe.Handle, device.Stream) error) error {
	m, err := objectOf[*moeObject](h)
	if err != nil {
		return err
	}
	s, err := m.c.stream(stream)
	if err != nil {
		return err
	}
	return f(m, moe.Handle{Shape: a.Shape.shape(), Memory: device.Ptr(a.Memory), Tokens: int(a.Tokens)}, s)
}

// MoECount counts tokens.
func MoECount(h Handle, a *MoECountArgs) error {
	if a == nil {
		return errNull
	}
	return a.Handle.enqueue(h, a.Stream, func(m *moeObject, to moe.Handle, s device.Stream) error {
		return m.Count(moe.CountArgs{Shape: to.Shape, Tokens: to.Tokens, TopKIndex: device.Ptr(a.TopKIndex),
			Ranks: device.Ptr(a.Ranks), ExpertCounts: device.Ptr(a.Experts), InRank: device.Ptr(a.InRank), Stream: s})
	})
}

// MoENotify fills a handle.
func MoENotify(h Handle, a *MoENotifyArgs) error {
	if a == nil {
		return errNull
	}
	return a.Handle.enqueue(h, a.Stream, func(m *moeObject, to moe.Handle, s device.Stream) error {
		return m.Notify(moe.NotifyArgs{Handle: to, TopKIndex: device.Ptr(a.TopKIndex), InRank: device.Ptr(a.InRank),
			Counts: device.Ptr(a.Counts), Stream: s})
	})
}

// MoEDispatch sends tokens.
func MoEDispatch(h Handle, a *MoEDispatchArgs) error {
	if a == nil {
		return errNull
	}
	return a.Handle.enqueue(h, a.Stream, func(m *moeObject, to moe.Handle, s device.Stream) error {
		return m.Dispatch(moe.DispatchArgs{Handle: to, X: device.Ptr(a.X), Type: datatype.Type(a.Type),
			Scales: device.Ptr(a.Scales), Quantize: a.Flags&moeQuantize != 0, PowerOfTwo: a.Flags&moePowerOfTwo != 0,
			Lists: a.Flags&moeLists != 0, Blocks: int(a.Blocks), Index: device.Ptr(a.Index), Weights: device.Ptr(a.Weights),
			RecvX: device.Ptr(a.RecvX), RecvScales: device.Ptr(a.RecvScales), RecvRows: int(a.RecvRows),
			RecvIndex: device.Ptr(a.RecvIndex), RecvWeights: device.Ptr(a.RecvWeights),
			RecvSource: device.Ptr(a.RecvSource), Stream: s})
	})
}

// MoECombine returns results.
func MoECombine(h Handle, a *MoECombineArgs) error {
	if a == nil {
		return errNull
	}
	return a.Handle.enqueue(h, a.Stream, func(m *moeObject, to moe.Handle, s device.Stream) error {
		return m.Combine(moe.CombineArgs{Handle: to, X: device.Ptr(a.X), Rows: int(a.Rows), Weights: device.Ptr(a.Weights),
			Index: device.Ptr(a.Index), Bias: [2]device.Ptr{device.Ptr(a.Bias[0]), device.Ptr(a.Bias[1])},
			Out: device.Ptr(a.Out), OutWeights: device.Ptr(a.OutWeights),
			Blocks: int(a.Blocks), Stream: s})
	})
}
