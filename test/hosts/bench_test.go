package hosts_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/test/commtest"
)

// BenchmarkAllToAllV measures small all-to-all-v of two hosts with and without the counts of all ranks, over the
// loopback interface.
func BenchmarkAllToAllV(b *testing.B) {
	for _, ranks := range []int{4, 8, 16} {
		hosts := make([]int, ranks)
		for r := ranks / 2; r < ranks; r++ {
			hosts[r] = 1
		}
		for _, bytes := range []int64{64, 1 << 10, 4 << 10, 16 << 10, 64 << 10} {
			for _, known := range []bool{false, true} {
				b.Run(fmt.Sprintf("%d ranks/%d/known=%v", len(hosts), bytes, known), func(b *testing.B) {
					allToAllV(b, commtest.NewOn(b, hosts, commtest.Host, nil), bytes, known)
				})
			}
		}
	}
}

func allToAllV(b *testing.B, comms []*goccl.Comm, bytes int64, known bool) {
	n := len(comms)
	counts, displs, all := make([]int64, n), make([]int64, n), make([]int64, n*n)
	for i := range all {
		counts[i%n], displs[i%n], all[i] = bytes, int64(i%n)*bytes, bytes
	}
	if err := commtest.Each(n, func(r int) error {
		c := comms[r]
		s, err := c.Device().NewStream()
		if err != nil {
			return err
		}
		m, err := c.Device().Alloc(2 * bytes * int64(n))
		if err != nil {
			return err
		}
		in, out := m.Ptr(), m.Ptr().Add(bytes*int64(n))
		for range b.N {
			if known {
				err = c.AllToAllVMatrix(in, displs, out, displs, all, datatype.Int8, s)
			} else {
				err = c.AllToAllV(in, counts, displs, out, counts, displs, datatype.Int8, s)
			}
			if err != nil {
				return err
			}
		}
		return c.Synchronize(context.Background(), s)
	}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAllReduce measures all-reduces of two ranks that count as two hosts, over the loopback interface.
func BenchmarkAllReduce(b *testing.B) {
	for _, bytes := range []int64{8, 64 << 10, 1 << 20, 16 << 20} {
		b.Run(fmt.Sprint(bytes), func(b *testing.B) {
			comms := commtest.NewOn(b, []int{0, 1}, commtest.Host, nil)
			b.SetBytes(bytes)
			if err := commtest.Each(len(comms), func(r int) error {
				c := comms[r]
				s, err := c.Device().NewStream()
				if err != nil {
					return err
				}
				m, err := c.Device().Alloc(2 * bytes)
				if err != nil {
					return err
				}
				for range b.N {
					if err := c.AllReduce(m.Ptr(), m.Ptr().Add(bytes), bytes/4, datatype.Float32, datatype.Sum, s); err != nil {
						return err
					}
				}
				return c.Synchronize(context.Background(), s)
			}); err != nil {
				b.Fatal(err)
			}
		})
	}
}
