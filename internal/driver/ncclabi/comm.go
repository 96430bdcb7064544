package ncclabi

// Comm is one rank of a communicator of the library. Pointers are device addresses, streams are CUstreams of the Comm's
// context, types and operators have NCCL's numbers (as in package datatype), counts are elements as NCCL counts
// them.
type Comm struct {
	lib *Library
	raw uintptr
	ctx uintptr
}

func (c *Comm) do(f Function, a *args) error {
	return c.lib.check(f, c.raw, c.lib.call(f, c.ctx, a, nil))
}

// Call holds the arguments of a collective, a send or a receive. Each function takes the fields that its NCCL
// counterpart has. Send receives nothing and Recv sends nothing; Root is their peer.
type Call struct {
	Send, Recv     uintptr
	Count          int64
	Type, Op, Root int
	Stream         uintptr
}

// Enqueue calls a function from AllReduce to Scatter. The error is ErrMissing if the library is too old for it.
func (c *Comm) Enqueue(f Function, x *Call) error {
	return c.do(f, &args{uint64(x.Send), uint64(x.Recv), uint64(x.Count), uint64(x.Type), uint64(x.Op), uint64(x.Root),
		uint64(c.raw), uint64(x.Stream)})
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
