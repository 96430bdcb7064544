package tutorial

import (
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/primitive"
)

// statusWords is device memory where kernels on a GPU write their status, a word for each launch. Kernels on the host
// device return theirs, and need none.
type statusWords struct {
	memory device.Allocation
	room   int // words in memory
	used   int // words of the kernels that were launched last
}

// Clear makes room for n kernels. Those before have ended.
func (w *statusWords) Clear(d *Device, n int) error {
	if n > w.room {
		if err := w.Close(); err != nil {
			return err
		}
		var err error
		if w.memory, err = d.Alloc(4 * int64(n)); err != nil {
			return err
		}
		w.room = n
	}
	w.used = n
	return d.CopyIn(w.memory.Ptr(), make([]byte, 4*n))
}

// Word returns the address of kernel i's word.
func (w *statusWords) Word(i int) device.Ptr { return w.memory.Ptr().Add(4 * int64(i)) }

// First returns the first status that is not OK.
func (w *statusWords) First(d *Device) (primitive.Status, error) {
	if w.used == 0 {
		return primitive.StatusOK, nil
	}
	words := make([]primitive.Status, w.used)
	if err := d.CopyOut(device.BytesOf(words), w.memory.Ptr()); err != nil {
		return primitive.StatusOK, err
	}
	for _, s := range words {
		if s != primitive.StatusOK {
			return s, nil
		}
	}
	return primitive.StatusOK, nil
}

// Close frees the memory.
func (w *statusWords) Close() error {
	m := w.memory
	*w = statusWords{}
	if m == nil {
		return nil
	}
	return m.Close()
}
