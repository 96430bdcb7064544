package ncclabi

// Comm is one rank of a communicator of the library. Pointers are device addresses, streams are CUstreams of the Comm's
// context, types and operators have NCCL's numbers (as in package datatype), counts are elements as NCCL counts
// them.
type Comm struct {
	lib *Library
	raw uintptr
	ctx uintptr
}

func (c *Comm) do(f function, a *args) error {
	return c.lib.check(f, c.raw, c.lib.call(f, c.ctx, a, nil))
}

// AllReduce enqueues ncclAllReduce; the other collectives likewise.
func (c *Comm) AllReduce(send, recv uintptr, count int64, dtype, op int, stream uintptr) error {
	return c.do(fAllReduce, &args{uint64(send), uint64(recv), uint64(count), uint64(dtype), uint64(op), uint64(c.raw),
		uint64(stream)})
}

// AllGather gathers count elements of every rank.
func (c *Comm) AllGather(send, recv uintptr, count int64, dtype int, stream uintptr) error {
	return c.do(fAllGather, &args{uint64(send), uint64(recv), uint64(count), uint64(dtype), uint64(c.raw), uint64(stream)})
}

// ReduceScatter leaves count elements on every rank.
func (c *Comm) ReduceScatter(send, recv uintptr, count int64, dtype, op int, stream uintptr) error {
	return c.do(fReduceScatter, &args{uint64(send), uint64(recv), uint64(count), uint64(dtype), uint64(op), uint64(c.raw),
		uint64(stream)})
}

// AlltoAll exchanges count elements with every rank; ErrMissing before NCCL 2.28.
func (c *Comm) AlltoAll(send, recv uintptr, count int64, dtype int, stream uintptr) error {
	return c.do(fAlltoAll, &args{uint64(send), uint64(recv), uint64(count), uint64(dtype), uint64(c.raw), uint64(stream)})
}

// Broadcast sends root's elements to all.
func (c *Comm) Broadcast(send, recv uintptr, count int64, dtype, root int, stream uintptr) error {
	return c.do(fBroadcast, &args{uint64(send), uint64(recv), uint64(count), uint64(dtype), uint64(root), uint64(c.raw),
		uint64(stream)})
}

// Reduce reduces to root.
func (c *Comm) Reduce(send, recv uintptr, count int64, dtype, op, root int, stream uintptr) error {
	return c.do(fReduce, &args{uint64(send), uint64(recv), uint64(count), uint64(dtype), uint64(op), uint64(root),
		uint64(c.raw), uint64(stream)})
}

// Gather collects count elements of every rank at root; ErrMissing before NCCL 2.28.
func (c *Comm) Gather(send, recv uintptr, count int64, dtype, root int, stream uintptr) error {
	return c.do(fGather, &args{uint64(send), uint64(recv), uint64(count), uint64(dtype), uint64(root), uint64(c.raw),
		uint64(stream)})
}

// Scatter spreads root's elements, count to each rank; ErrMissing before NCCL 2.28.
func (c *Comm) Scatter(send, recv uintptr, count int64, dtype, root int, stream uintptr) error {
	return c.do(fScatter, &args{uint64(send), uint64(recv), uint64(count), uint64(dtype), uint64(root), uint64(c.raw),
		uint64(stream)})
}

// Send sends to peer.
func (c *Comm) Send(buf uintptr, count int64, dtype, peer int, stream uintptr) error {
	return c.do(fSend, &args{uint64(buf), uint64(count), uint64(dtype), uint64(peer), uint64(c.raw), uint64(stream)})
}

// Recv receives from peer.
func (c *Comm) Recv(buf uintptr, count int64, dtype, peer int, stream uintptr) error {
	return c.do(fRecv, &args{uint64(buf), uint64(count), uint64(dtype), uint64(peer), uint64(c.raw), uint64(stream)})
}

// PreMulSum makes an operator that multiplies by a host scalar (one element of dtype in memory order) before it sums.
func (c *Comm) PreMulSum(scalar [8]byte, dtype int) (op int, err error) {
	a := args{uint64(dtype), 1, uint64(c.raw)}
	err = c.lib.check(fRedOpCreatePreMulSum, c.raw, c.lib.call(fRedOpCreatePreMulSum, c.ctx, &a, &scalar[0]))
	return int(int32(a[0])), err
}

// DestroyOp frees an operator.
func (c *Comm) DestroyOp(op int) error {
	return c.do(fRedOpDestroy, &args{uint64(op), uint64(c.raw)})
}

// AsyncError is what went wrong in the background, or nil.
func (c *Comm) AsyncError() error {
	a := args{uint64(c.raw)}
	if err := c.do(fCommGetAsyncError, &a); err != nil {
		return err
	}
	return c.lib.check(fCommGetAsyncError, c.raw, Result(int32(a[0])))
}

// Destroy frees the communicator; its work must be done. Twice is harmless.
func (c *Comm) Destroy() error {
	if c.raw == 0 {
		return nil
	}
	a := args{uint64(c.raw)}
	err := c.do(fCommDestroy, &a)
	c.raw = 0
	return err
}
