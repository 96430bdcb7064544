package hosts_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/test/commtest"
)

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
