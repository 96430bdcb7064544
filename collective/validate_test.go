package collective

import (
	"errors"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// A buffer that is accessed is aligned to its elements. Of one that is not, on ranks other than the root or without
// elements, the address may be anything.
func TestAlignment(t *testing.T) {
	const odd, even device.Ptr = 4097, 8192
	for _, c := range []struct {
		what       Collective
		send, recv device.Ptr
		root       int
		count      int64
		good       bool
	}{
		{Broadcast, odd, even, 1, 8, true}, {Broadcast, odd, even, 0, 8, false}, {Broadcast, even, odd, 1, 8, false},
		{Reduce, even, odd, 1, 8, true}, {Reduce, even, odd, 0, 8, false}, {Reduce, odd, even, 1, 8, false},
		{Gather, even, odd, 1, 8, true}, {Scatter, odd, even, 1, 8, true}, {Scatter, odd, even, 0, 8, false},
		{AllReduce, odd, even, 0, 8, false}, {AllReduce, odd, odd, 0, 0, true}, {Send, odd, odd, 0, 8, false},
		{Recv, odd, even, 0, 8, true},
	} {
		r := Request{Collective: c.what, Send: c.send, Recv: c.recv, Root: c.root, Count: c.count, Type: datatype.Float32}
		if err := r.Validate(0, 2); (err == nil) != c.good || !c.good && !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	r := Request{Collective: AllToAllVDevice, Send: even, Recv: odd, Type: datatype.Float32,
		DeviceCounts: DeviceCounts{SendCounts: 8, SendDispls: 8, RecvCounts: 8, RecvDispls: 8}}
	if err := r.Validate(0, 2); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("counts on the device: %v", err)
	}
}
