package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
)

// buffers are the send and receive memory of one rank, with guards on both sides of each.
type buffers struct {
	dev                 device.Device
	mem                 []device.Allocation
	send, recv          device.Ptr
	sendBytes, recvByte int64
	inPlace             bool
}

func newBuffers(dev device.Device, send, recv, shift int64, inPlace *int64) (*buffers, error) {
	b := &buffers{dev: dev, sendBytes: send, recvByte: recv, inPlace: inPlace != nil}
	alloc := func(n int64) (device.Ptr, error) {
		m, err := dev.Alloc(n + 2*guard + shift)
		if err != nil {
			return 0, err
		}
		b.mem = append(b.mem, m)
		return m.Ptr().Add(guard + shift), device.Fill(dev, m.Ptr(), poison, n+2*guard+shift)
	}
	var err error
	switch {
	case inPlace == nil:
		if b.send, err = alloc(send); err == nil {
			b.recv, err = alloc(recv)
		}
	case *inPlace >= 0:
		if b.recv, err = alloc(max(recv, send)); err == nil {
			b.send = b.recv.Add(*inPlace)
		}
	default:
		if b.send, err = alloc(send); err == nil {
			b.recv = b.send.Add(-1 - *inPlace)
		}
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *buffers) fill(input []byte) error {
	if len(input) == 0 {
		return nil
	}
	return b.dev.CopyIn(b.send, input)
}

// deviceCounts moves the arrays of an all-to-all-v from the request to device memory.
func (b *buffers) deviceCounts(r *collective.Request) (collective.DeviceCounts, error) {
	var list []byte
	n := int64(len(r.SendCounts))
	for _, v := range []*[]int64{&r.SendCounts, &r.SendDispls, &r.RecvCounts, &r.RecvDispls} {
		for _, x := range *v {
			list = binary.NativeEndian.AppendUint64(list, uint64(x))
		}
		*v = nil
	}
	m, err := b.dev.Alloc(int64(len(list)))
	if err != nil {
		return collective.DeviceCounts{}, err
	}
	b.mem = append(b.mem, m)
	p := m.Ptr()
	return collective.DeviceCounts{SendCounts: p, SendDispls: p.Add(8 * n), RecvCounts: p.Add(16 * n),
		RecvDispls: p.Add(24 * n)}, b.dev.CopyIn(p, list)
}

// result checks the guards and returns recv.
func (b *buffers) result() ([]byte, error) {
	out := make([]byte, b.recvByte)
	if err := b.dev.CopyOut(out, b.recv); err != nil {
		return nil, err
	}
	if b.inPlace {
		return out, nil // the memory around recv is send
	}
	var edge [guard]byte
	for _, at := range []device.Ptr{b.recv.Add(-guard), b.recv.Add(b.recvByte), b.send.Add(-guard),
		b.send.Add(b.sendBytes)} {
		if err := b.dev.CopyOut(edge[:], at); err != nil {
			return nil, err
		}
		if !allPoison(edge[:]) {
			return nil, fmt.Errorf("memory outside of the buffers was written (guard at %#x)", at)
		}
	}
	return out, nil
}

func allPoison(b []byte) bool {
	for _, v := range b {
		if v != poison {
			return false
		}
	}
	return true
}

func (b *buffers) close() error {
	var errs []error
	for _, m := range b.mem {
		errs = append(errs, m.Close())
	}
	b.mem = nil
	return errors.Join(errs...)
}
