package perf

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// buffers are one rank's memory for all sizes and libraries of a measurement.
type buffers struct {
	dev        device.Device
	send, recv device.Allocation
	counts     device.Allocation // for kinds whose counts the device reads; nil otherwise
	chunk      []byte            // scratch for CopyIn and CopyOut
}

// newBuffers allocates memory for outputs and inputs of up to size bytes, at offsets of up to shift bytes in the
// allocation.
func newBuffers(dev device.Device, size, shift int64) (*buffers, error) {
	b := &buffers{dev: dev, chunk: make([]byte, min(4<<20, size+guard+1))}
	var err error
	if b.send, err = dev.Alloc(size + shift + guard); err != nil {
		return nil, fmt.Errorf("perf: send buffer of %d bytes on %v: %w", size, dev.ID(), err)
	}
	if b.recv, err = dev.Alloc(size + shift + guard); err != nil {
		_ = b.send.Close()
		return nil, fmt.Errorf("perf: receive buffer of %d bytes on %v: %w", size, dev.ID(), err)
	}
	return b, nil
}

func (b *buffers) Close() error {
	err := errors.Join(b.send.Close(), b.recv.Close())
	if b.counts != nil {
		err = errors.Join(err, b.counts.Close())
	}
	return err
}

// deviceCounts copies the counts of a request to device memory. The request keeps its host lists, for libraries that
// read those.
func (b *buffers) deviceCounts(r *collective.Request) error {
	n := int64(len(r.SendCounts))
	if b.counts == nil {
		var err error
		if b.counts, err = b.dev.Alloc(4 * 8 * n); err != nil {
			return fmt.Errorf("perf: counts of %d ranks on %v: %w", n, b.dev.ID(), err)
		}
	}
	var list []byte
	for _, v := range [][]int64{r.SendCounts, r.SendDispls, r.RecvCounts, r.RecvDispls} {
		for _, x := range v {
			list = binary.NativeEndian.AppendUint64(list, uint64(x))
		}
	}
	p := b.counts.Ptr()
	r.DeviceCounts = collective.DeviceCounts{SendCounts: p, SendDispls: p.Add(8 * n), RecvCounts: p.Add(16 * n),
		RecvDispls: p.Add(24 * n)}
	return b.dev.CopyIn(p, list)
}

// call is one operation of one rank, with its addresses.
type call struct {
	g          geometry
	rank       int
	inPlace    bool
	send, recv device.Ptr
	sends      int64      // elements
	base       device.Ptr // start of the receive buffer, or of the only buffer of an in-place call
	end        device.Ptr // start of the guard zone
	requests   []collective.Request
}

// call places the operation in the buffers, shift bytes from their start.
func (b *buffers) call(g geometry, rank int, inPlace bool, shift int64, s device.Stream) (*call, error) {
	ts := g.typ.Size()
	c := &call{g: g, rank: rank, inPlace: inPlace, send: b.send.Ptr().Add(shift), recv: b.recv.Ptr().Add(shift)}
	c.base = c.recv
	sends, receives := g.lengths(rank)
	c.sends, c.end = sends, c.recv.Add(receives*ts)
	if inPlace {
		send, recv, length := g.inPlace(rank)
		c.send, c.recv, c.end = c.base.Add(send*ts), c.base.Add(recv*ts), c.base.Add(length*ts)
	}
	r := collective.Request{Send: c.send, Recv: c.recv, Op: g.op, Stream: s}
	if g.op == datatype.PreMulSum {
		encode(r.Scalar[:], g.typ, scalarOf)
	}
	c.requests = g.requests(rank, r)
	if g.kind.Collective == collective.AllToAllVDevice {
		return c, b.deviceCounts(&c.requests[0])
	}
	return c, nil
}

// fill writes the rank's input and poisons all other memory: outputs, and bytes that the operation must not write.
func (b *buffers) fill(c *call, in *inputs) error {
	ts := c.g.typ.Size()
	n := int64(c.end-c.base) + guard
	if err := b.repeat(c.base, bytes.Repeat([]byte{poison}, int(min(n, int64(len(b.chunk))))), n); err != nil {
		return err
	}
	return b.repeat(c.send, in.ranks[c.rank], c.sends*ts)
}

func (b *buffers) repeat(p device.Ptr, block []byte, n int64) error {
	for n > 0 {
		k := min(n, int64(len(block)))
		if err := b.dev.CopyIn(p, block[:k]); err != nil {
			return err
		}
		n, p = n-k, p.Add(k)
	}
	return nil
}

// verify counts wrong elements in the output, wrong elements in an input that must not change, and changed bytes behind
// the output.
func (b *buffers) verify(ctx context.Context, c *call, in *inputs) (wrong, stray int64, err error) {
	segments := c.g.expected(c.rank)
	for _, s := range segments {
		w, err := b.compare(ctx, c.recv, s, in)
		if err != nil {
			return 0, 0, err
		}
		wrong += w
	}
	if !c.inPlace {
		w, err := b.compare(ctx, c.send, segment{count: c.sends, from: c.rank}, in)
		if err != nil {
			return 0, 0, err
		}
		wrong += w
	}
	zone := b.chunk[:min(guard, len(b.chunk))]
	if err := b.dev.CopyOut(zone, c.end); err != nil {
		return 0, 0, err
	}
	stray = int64(len(zone) - bytes.Count(zone, []byte{poison}))
	return wrong, stray, nil
}

func (b *buffers) compare(ctx context.Context, base device.Ptr, s segment, in *inputs) (wrong int64, err error) {
	ts := in.typ.Size()
	step := int64(len(b.chunk)) / ts
	for first := int64(0); first < s.count; first += step {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		k := min(step, s.count-first)
		got := b.chunk[:k*ts]
		if err := b.dev.CopyOut(got, base.Add((s.at+first)*ts)); err != nil {
			return 0, err
		}
		wrong += in.compare(got, s, first)
	}
	return wrong, nil
}
