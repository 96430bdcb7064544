package core

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// firstCreatedOp is GOCCL_FIRST_CREATED_OP.
const firstCreatedOp = 0x10000

// translate converts q to a request of c, without a stream, and checks it.
func (c *comm) translate(q *Request, out *collective.Request) error {
	if q.Type >= uint32(datatype.NumTypes) && q.Collective != uint32(collective.Barrier) {
		return c.argument(q, "element type %d is not known", q.Type)
	}
	if q.Count > 1<<62 {
		return c.argument(q, "the count, %d, is negative or too large", int64(q.Count))
	}
	*out = collective.Request{Collective: collective.Collective(q.Collective), Send: device.Ptr(q.Send),
		Recv: device.Ptr(q.Recv), Count: int64(q.Count),
		Type: datatype.Type(q.Type)}
	switch out.Collective {
	case collective.AllReduce, collective.ReduceScatter, collective.Reduce:
		if err := c.operator(q, out); err != nil {
			return err
		}
	case collective.AllToAllV:
		n := c.size
		if q.SendCounts == nil || q.SendDispls == nil || q.RecvCounts == nil || q.RecvDispls == nil {
			return c.argument(q, "an array of counts or displacements is NULL")
		}
		out.SendCounts, out.SendDispls = unsafe.Slice((*int64)(q.SendCounts), n), unsafe.Slice((*int64)(q.SendDispls), n)
		out.RecvCounts, out.RecvDispls = unsafe.Slice((*int64)(q.RecvCounts), n), unsafe.Slice((*int64)(q.RecvDispls), n)
	}
	if out.Collective == collective.AllToAllVDevice {
		out.DeviceCounts = collective.DeviceCounts{SendCounts: device.Ptr(uintptr(q.SendCounts)),
			SendDispls: device.Ptr(uintptr(q.SendDispls)),
			RecvCounts: device.Ptr(uintptr(q.RecvCounts)), RecvDispls: device.Ptr(uintptr(q.RecvDispls)),
			SendElements: int64(q.SendElements), RecvElements: int64(q.RecvElements)}
	}
	if q.Config != nil {
		if err := c.configure(q, out); err != nil {
			return err
		}
	}
	switch out.Collective {
	case collective.Reduce, collective.Broadcast, collective.Gather, collective.Scatter:
		out.Root = int(q.Root)
	case collective.Send, collective.Recv:
		out.Peer = int(q.Root)
	}
	return nil
}

// operator fills in Op and the factor.
func (c *comm) operator(q *Request, out *collective.Request) error {
	if q.Op < firstCreatedOp {
		if q.Op >= uint32(datatype.NumOps) {
			return c.argument(q, "reduction operator %d is not known", q.Op)
		}
		out.Op = datatype.Op(q.Op)
		binary.LittleEndian.PutUint64(out.Scalar[:], q.Scalar)
		out.ScalarPtr = device.Ptr(q.ScalarPtr)
		return nil
	}
	o, err := c.findOp(q.Op)
	if err != nil {
		return c.wrap(q, err)
	}
	if o.typ != out.Type {
		return c.argument(q, "the operator was made for %v, the call is for %v", o.typ, out.Type)
	}
	out.Op, out.Scalar, out.ScalarPtr = datatype.PreMulSum, o.scalar, o.ptr
	return nil
}

func (c *comm) argument(q *Request, format string, args ...any) error {
	return c.wrap(q, fmt.Errorf("%w: "+format, append([]any{ErrInvalidArgument}, args...)...))
}

func (c *comm) wrap(q *Request, err error) error {
	return &collective.Error{Comm: c.cfg.Name, Op: collective.Collective(q.Collective).String(), Rank: c.rank, Peer: -1,
		Err: err}
}
