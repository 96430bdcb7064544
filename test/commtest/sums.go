package commtest

import (
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
	u := &Sums{c: c, Mem: mem, Stream: s}
	ones := make([]byte, 4*SumCount)
	for i := 0; i < len(ones); i += 4 {
		ones[i] = 1
	}
	return u, c.Device().CopyIn(mem.Ptr(), ones)
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
	for i := 0; i < len(got); i += 4 {
		if int(got[i]) != u.c.WorldSize() || got[i+1]|got[i+2]|got[i+3] != 0 {
			return fmt.Errorf("element %d is % x, want %d", i/4, got[i:i+4], u.c.WorldSize())
		}
	}
	return nil
}

// Close frees them.
func (u *Sums) Close() error { return errors.Join(u.Stream.Close(), u.Mem.Close()) }
