package commtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// SumCount is the number of elements of an all-reduce of Sums.
const SumCount = 1 << 16

// Sums is a rank's memory and stream for all-reduces.
type Sums struct {
	c      *goccl.Comm
	want   []byte
	Mem    device.Allocation
	Stream device.Stream
}

// NewSums allocates them.
func NewSums(c *goccl.Comm) (*Sums, error) {
	mem, err := c.Device().Alloc(8 * SumCount)
	if err != nil {
		return nil, err
	}
	s, err := c.Device().NewStream()
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	u := &Sums{c: c, want: bytes.Repeat([]byte{byte(c.WorldSize()), 0, 0, 0}, SumCount), Mem: mem, Stream: s}
	return u, c.Device().CopyIn(mem.Ptr(), bytes.Repeat([]byte{1, 0, 0, 0}, SumCount))
}

// Once runs n all-reduces in a row, with input 1 on every rank, and checks the sum.
func (u *Sums) Once(n int) error {
	out := u.Mem.Ptr().Add(4 * SumCount)
	for range n {
		if err := u.c.AllReduce(u.Mem.Ptr(), out, SumCount, datatype.Int32, datatype.Sum, u.Stream); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := u.c.Synchronize(ctx, u.Stream); err != nil {
		return err
	}
	got := make([]byte, 4*SumCount)
	if err := u.c.Device().CopyOut(got, out); err != nil {
		return err
	}
	if bytes.Equal(got, u.want) { // a loop takes the race detector as long as the all-reduces
		return nil
	}
	for i := 0; ; i += 4 {
		if !bytes.Equal(got[i:i+4], u.want[i:i+4]) {
			return fmt.Errorf("element %d is % x, want % x", i/4, got[i:i+4], u.want[i:i+4])
		}
	}
}

// Close frees them.
func (u *Sums) Close() error { return errors.Join(u.Stream.Close(), u.Mem.Close()) }
