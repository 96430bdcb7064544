package nettest

import (
	"fmt"
	"testing"

	"github.com/goccl/goccl/transport"
)

// Bench measures ping-pong (time per direction), and streams with 8 puts in flight.
func Bench(b *testing.B, net func(testing.TB) transport.Net) {
	for _, size := range []int{8, 1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint("pingpong/", size), func(b *testing.B) {
			n := net(b)
			x, y := Join(b, Open(b, n), Open(b, n), size)
			b.ResetTimer()
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := range b.N {
					y.wait(b, 1, uint64(i+1))
					y.put(b, 0, size, 1)
				}
			}()
			for i := range b.N {
				x.put(b, 0, size, 1)
				x.wait(b, 1, uint64(i+1))
			}
			<-done
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/put")
		})
	}
	for _, size := range []int{64, 64 << 10, 1 << 20, 64 << 20} {
		b.Run(fmt.Sprint("stream/", size), func(b *testing.B) {
			n := net(b)
			x, y := Join(b, Open(b, n), Open(b, n), size)
			b.SetBytes(int64(size))
			b.ResetTimer()
			slots := make(chan struct{}, 8)
			for range b.N {
				slots <- struct{}{}
				if err := x.Put(x.Src, 0, x.Dst, 0, int64(size), 1, func(error) { <-slots }); err != nil {
					b.Fatal(err)
				}
			}
			y.wait(b, 1, uint64(b.N))
		})
	}
}
