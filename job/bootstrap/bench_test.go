package bootstrap

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func BenchmarkBarrier(b *testing.B) {
	for _, n := range []int{2, 8} {
		for name, bs := range map[string][]Bootstrap{"local": NewLocal(n).Ranks, "tcp": tcpGroup(b, n)} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				each(b, bs, func(r Bootstrap) error {
					for range b.N {
						if err := r.Barrier(context.Background()); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}

func BenchmarkPingPong(b *testing.B) {
	bs := tcpGroup(b, 2)
	for _, size := range []int{0, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			data := make([]byte, size)
			each(b, bs, func(r Bootstrap) error {
				ctx := context.Background()
				for range b.N {
					if r.Rank() == 0 {
						if err := r.Send(ctx, 1, 0, data); err != nil {
							return err
						}
					}
					if _, err := r.Recv(ctx, 1-r.Rank(), 0); err != nil {
						return err
					}
					if r.Rank() == 1 {
						if err := r.Send(ctx, 0, 0, data); err != nil {
							return err
						}
					}
				}
				return nil
			})
		})
	}
}

func BenchmarkJoin(b *testing.B) {
	for _, n := range []int{8, 64, 127, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				closeAll(tcpGroup(b, n, WithTimeout(10*time.Minute)))
			}
		})
	}
}
