package primitive

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/goccl/goccl/datatype"
)

func TestSwitchChannel(t *testing.T) {
	const n, count = 3, 1000
	job(t, n, func(r *rank) error {
		a, err := r.dev.Alloc(count * 4)
		if err != nil {
			return err
		}
		mem, err := r.comm.Context().RegisterMemory(r.dev, a.Ptr(), count*4, Flags(IPC))
		if err != nil {
			return err
		}
		bg := context.Background()
		sw, err := NewSwitchChannel(bg, r.comm, r.dev, mem, 0)
		if err != nil {
			return err
		}
		h := sw.DeviceHandle()
		me := MemoryChannelHandle{Dst: a.Ptr()}
		for i := range int64(count) {
			Write(&me, i, float32(int(i)*(r.comm.Rank()+1)))
		}
		barrier := func() error { return r.comm.Bootstrap().Barrier(bg) }
		if err := barrier(); err != nil {
			return err
		}
		out, err := r.dev.Alloc(count * 4)
		if err != nil {
			return err
		}
		lo, hi := part(count, r.comm.Rank(), n)
		for tid := range 2 {
			if err := h.Reduce(out.Ptr(), lo, hi-lo, datatype.Float32, datatype.Sum, tid, 2); err != nil {
				return err
			}
		}
		if got := ReduceElement[float32](&h, lo); got != float32(lo*6) {
			return fmt.Errorf("element: %v", got)
		}
		if err := barrier(); err != nil {
			return err
		}
		if err := h.Broadcast(lo*4, out.Ptr(), (hi-lo)*4, 0, 1); err != nil {
			return err
		}
		if err := barrier(); err != nil {
			return err
		}
		for i := range int64(count) {
			if got := Read[float32](&me, i); got != float32(i*6) {
				return fmt.Errorf("element %d is %v, want %v", i, got, i*6)
			}
		}
		if err := h.Broadcast(count*4-3, out.Ptr(), 4, 0, 1); !errors.Is(err, ErrInvalid) {
			return fmt.Errorf("broadcast past the end: %v", err)
		}
		return nil
	})
}
