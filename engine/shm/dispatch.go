package shm

import (
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/hostreduce"
)

func (e *Engine) dispatch(o *op, batch []collective.Request) error {
	if o.req.PointToPoint() {
		return o.pointToPoint(transfers(batch))
	}
	o.sig = o.req.Signature()
	switch o.req.Collective {
	case collective.AllToAllV:
		return o.pointToPoint(transfersV(o.req, e.size))
	case collective.AllToAllVDevice:
		if e.counts == nil {
			e.counts = make([]int64, 4*e.size)
		}
		if err := o.req.ReadDeviceCounts(e.size, e.counts); err != nil {
			return o.error(-1, err)
		}
		return o.pointToPoint(transfersV(o.req, e.size))
	case collective.Barrier:
		o.algorithm(e.recorded.meeting)
		return o.step()
	}
	s, ok := shapeOf(o.req, e.size)
	if !ok {
		return o.error(-1, fmt.Errorf("%w: %v on the host device", collective.ErrUnsupported, o.req.Collective))
	}
	if done, err := o.inPlace(s); done || err != nil {
		return err
	}
	return o.staged(s)
}

// contribute copies this rank's input to where the peers read it. In a pre-multiplied sum it multiplies the input by
// this rank's factor: factors may differ between ranks.
func (o *op) contribute(dst, src []byte) error {
	if o.req.Op != datatype.PreMulSum {
		copy(dst, src)
		return nil
	}
	factor := o.req.Scalar
	if o.req.ScalarPtr != 0 {
		copy(factor[:], device.Bytes(o.req.ScalarPtr, o.req.Type.Size()))
	}
	if err := hostreduce.Scale(dst[:len(src)], src, o.req.Type, factor); err != nil {
		return o.error(-1, err)
	}
	return nil
}

// reduce combines the ranks' inputs, in rank order, into dst.
func (o *op) reduce(dst []byte, srcs [][]byte) error {
	op := o.req.Op
	if op == datatype.PreMulSum {
		op = datatype.Sum
	}
	if err := hostreduce.Reduce(dst, srcs, o.req.Type, op, [8]byte{}, o.e.size); err != nil {
		return o.error(-1, err)
	}
	return nil
}

// portion is the part [lo, hi) of n bytes that belongs to rank r of size. It has whole elements and, except for the
// last part, whole cache lines.
func portion(n int64, r, size int, elem int64) (lo, hi int64) {
	per := (n/elem + int64(size) - 1) / int64(size) * elem
	per = (per + 63) &^ 63
	return min(n, int64(r)*per), min(n, int64(r+1)*per)
}
