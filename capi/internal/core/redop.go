package core

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// redop is a pre-multiplied sum. Its number is firstCreatedOp·(index+1) plus the communicator's index, so that an
// operator of another communicator is detected.
type redop struct {
	live   bool
	typ    datatype.Type
	scalar [8]byte
	ptr    device.Ptr
}

const maxOps = 0x7ffe

// OpCreate makes an operator of the communicator. scalar is read during this call when onHost.
func OpCreate(h Handle, typ uint32, scalar unsafe.Pointer, onHost bool) (uint32, error) {
	c, err := comms.get(h)
	if err != nil {
		return 0, err
	}
	if typ >= uint32(datatype.NumTypes) || scalar == nil {
		return 0, fmt.Errorf("%w: an operator needs an element type (this one is %d) and a factor's address",
			ErrInvalidArgument, typ)
	}
	o := redop{live: true, typ: datatype.Type(typ)}
	if onHost {
		copy(o.scalar[:], unsafe.Slice((*byte)(scalar), o.typ.Size()))
	} else {
		o.ptr = device.Ptr(uintptr(scalar))
	}
	c.opMu.Lock()
	defer c.opMu.Unlock()
	i := slices.IndexFunc(c.ops, func(o redop) bool { return !o.live })
	if i < 0 {
		if i = len(c.ops); i == maxOps {
			return 0, fmt.Errorf("%w: the communicator has %d operators; destroy those that are not needed", ErrInvalidUsage,
				maxOps)
		}
		c.ops = append(c.ops, o)
	}
	c.ops[i] = o
	return uint32(i+1)*firstCreatedOp | uint32(h.index()), nil
}

// OpDestroy frees an operator. Requests that were submitted with it keep their factor.
func OpDestroy(h Handle, op uint32) error {
	c, err := comms.get(h)
	if err != nil {
		return err
	}
	if _, err := c.findOp(op); err != nil {
		return err
	}
	c.opMu.Lock()
	defer c.opMu.Unlock()
	c.ops[op/firstCreatedOp-1].live = false
	return nil
}

func (c *comm) findOp(op uint32) (redop, error) {
	c.opMu.Lock()
	defer c.opMu.Unlock()
	i := int(op/firstCreatedOp) - 1
	if i < 0 || i >= len(c.ops) || !c.ops[i].live || int(op%firstCreatedOp) != c.handle.index() {
		return redop{}, fmt.Errorf("%w: %#x is no operator of this communicator", ErrInvalidArgument, op)
	}
	return c.ops[i], nil
}
