package moe

import (
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// Handle is memory of the device that a Notify fills and that dispatches and combines read. HandleBytes is its size. It
// must not change while work that reads it runs.
type Handle struct {
	Shape
	Memory device.Ptr // at a multiple of 16
	Tokens int        // of this rank
}

// NotifyArgs are the arguments of Notify. The experts of the tokens are TopKIndex; if Shape.TopK is 0, their ranks are
// InRank.
type NotifyArgs struct {
	Handle
	TopKIndex device.Ptr // [Tokens][TopK] int64; -1: no expert
	InRank    device.Ptr // [Tokens][ranks] bytes, not 0: the token goes to the rank
	// Counts, with InRank, are this rank's tokens by expert: [Experts] int32, or 0. They are what Totals adds up.
	Counts device.Ptr
	Stream device.Stream
}

// DispatchArgs are the arguments of Dispatch.
type DispatchArgs struct {
	Handle
	// X are the rows of this rank's tokens, [Tokens][Hidden] of Type: bfloat16, or float8e4m3 with Scales.
	X      device.Ptr
	Type   datatype.Type
	Scales device.Ptr // [Tokens][ceil(Hidden/128)] float32
	// Quantize sends bfloat16 as float8e4m3 with scales. PowerOfTwo rounds the scales up to powers of two.
	Quantize, PowerOfTwo bool

	// Lists sends the tokens' experts and weights too. Index is needed, Weights may be 0.
	Lists          bool
	Index, Weights device.Ptr // [Tokens][TopK] int64, float32

	// RecvX has room for RecvRows rows: all that come, or fewer, which is an error when the operation runs. In the
	// layout Experts RecvRows is the number for each expert. RecvScales are needed for float8.
	RecvX, RecvScales device.Ptr
	RecvRows          int
	// The lists of the received rows, if Lists: experts numbered from the rank's first, -1 for experts of other ranks
	// and for rows beyond the last one; weights are 0 there.
	RecvIndex, RecvWeights device.Ptr // [RecvRows][TopK] int64, float32
	// RecvSource are the tokens at their ranks: [rows] int32; 0: not wanted.
	RecvSource device.Ptr
	Blocks     int // of the kernel on a GPU; 0: Size.Blocks
	Stream     device.Stream
}

// CombineArgs are the arguments of Combine.
type CombineArgs struct {
	Handle
	// X are this rank's results, of bfloat16, in the order of the rows that it received: [Rows][Hidden], or in the
	// layout Experts [experts][Rows][Hidden].
	X    device.Ptr
	Rows int
	// In the layout Experts, Weights are the weights of this rank's tokens, [Tokens][TopK] float32, and Index their
	// experts, [Tokens][TopK] int64. In the layout Rows, Weights are sums to return to the tokens' ranks, [Rows][TopK]
	// float32, or 0 for none.
	Weights, Index device.Ptr
	Bias           [2]device.Ptr // [Tokens][Hidden] bfloat16, added first; 0: none
	Out            device.Ptr    // [Tokens][Hidden] bfloat16
	OutWeights     device.Ptr    // [Tokens][TopK] float32: sums over the ranks, in the order of Out's
	Blocks         int           // of the kernel on a GPU; 0: Size.Blocks
	Stream         device.Stream
}

// CountArgs are the arguments of Count. Each result may be 0.
type CountArgs struct {
	Shape
	Tokens       int
	TopKIndex    device.Ptr // as in NotifyArgs
	Ranks        device.Ptr // [ranks] int32: tokens that go to each rank
	ExpertCounts device.Ptr // [Experts] int32: tokens that go to each expert
	InRank       device.Ptr // [Tokens][ranks] bytes, 0 or 1
	Stream       device.Stream
}

// sent is the type of rows between ranks.
func (a *DispatchArgs) sent() datatype.Type {
	if a.Quantize {
		return datatype.Float8E4M3
	}
	return a.Type
}
