package gpu_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/commtest"
)

// The model that the order tests compare GPUs with must match the collectives: the same calls, one after the other, on
// the host device.
func TestOrderModel(t *testing.T) {
	for _, n := range []int{2, 3} {
		comms := commtest.New(t, n, commtest.Host, nil)
		want, mem := make([][]uint32, n), make([]device.Allocation, n)
		steps, _ := newOrderScript(uint64(n), n, 1).round(250)
		for r := range n {
			want[r] = make([]uint32, orderWords)
		}
		touched := refresh(rand.New(rand.NewPCG(1, 1)), [][][]uint32{want}, steps)
		if err := commtest.Each(n, func(r int) error {
			c := comms[r]
			var err error
			if mem[r], err = c.Device().Alloc(4 * orderWords); err != nil {
				return err
			}
			return c.Device().CopyIn(mem[r].Ptr(), bytesOf(want[r]))
		}); err != nil {
			t.Fatal(err)
		}
		if err := commtest.Each(n, func(r int) error {
			c := comms[r]
			s, err := c.Device().NewStream()
			if err != nil {
				return err
			}
			for i := range steps {
				if k := steps[i].kind; k != orderEager && k != orderLaunch {
					continue
				}
				for j := range steps[i].ops {
					if err := goccl.Submit(steps[i].ops[j].calls(c, mem[r].Ptr(), s)); err != nil {
						return err
					}
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), commtest.Soon)
			defer cancel()
			return c.Synchronize(ctx, s)
		}); err != nil {
			t.Fatal(err)
		}
		for i := range steps {
			if k := steps[i].kind; k == orderEager || k == orderLaunch {
				for j := range steps[i].ops {
					steps[i].ops[j].run(want)
				}
			}
		}
		for r := range n {
			got := make([]uint32, orderWords)
			if err := comms[r].Device().CopyOut(bytesOf(got), mem[r].Ptr()); err != nil {
				t.Fatal(err)
			}
			if at := differs(got, want[r], touched[0]); at >= 0 {
				t.Errorf("%d ranks, rank %d: word %d is %#x, want %#x; last written by %v", n, r, at, got[at], want[r][at],
					lastWriter(steps, 0, at, n))
			}
			if err := mem[r].Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
