package chaos

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// errWrong is the error of an operation that succeeded with wrong data.
var errWrong = errors.New("wrong result")

// sums is a rank's memory for all-reduces of int32.
type sums struct {
	c      *goccl.Comm
	mem    device.Allocation
	stream device.Stream
	buffer []int32
	round  int32
}

func newSums(c *goccl.Comm, count int64) (*sums, error) {
	mem, err := c.Device().Alloc(8 * count)
	if err != nil {
		return nil, err
	}
	s, err := c.Device().NewStream()
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	return &sums{c: c, mem: mem, stream: s, buffer: make([]int32, count)}, nil
}

// call is one operation, which a fault may change in its victims.
type call struct {
	collective.Request
	skip  bool
	bad   bool // it is made with wrong pointers first
	other bool // another one is made in its place
}

// once runs an all-reduce. Rank r's elements are round << r, so that a result tells which ranks took part, and in which
// round. change, if there is one, changes the call.
func (u *sums) once(change func(c *call)) error {
	u.round++
	count := int64(len(u.buffer))
	mine := u.round % 1000 << u.c.Rank()
	for i := range u.buffer {
		u.buffer[i] = mine
	}
	k := call{Request: collective.Request{Collective: collective.AllReduce, Send: u.mem.Ptr(),
		Recv: u.mem.Ptr().Add(4 * count), Count: count, Type: datatype.Int32, Op: datatype.Sum, Stream: u.stream}}
	if change != nil {
		change(&k)
	}
	if k.skip {
		u.round-- // which the peers wait in
		return nil
	}
	if k.bad {
		if err := u.refused(k.Request); err != nil {
			return err
		}
	}
	if err := u.run(k.Request, count, count); err != nil {
		return err
	}
	want := u.round % 1000 * int32(1<<u.c.WorldSize()-1)
	for i, v := range u.buffer {
		if v != want {
			return fmt.Errorf("%w: element %d of round %d is %d, want %d of %d ranks", errWrong, i, u.round, v, want,
				u.c.WorldSize())
		}
	}
	return nil
}

func (u *sums) close() error { return errors.Join(u.stream.Close(), u.mem.Close()) }
