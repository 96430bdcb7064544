package tcp

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/goccl/goccl/test/testutil"
	"github.com/goccl/goccl/transport"
)

// ways are the networks for benchmarks: a link, and memory of size bytes at its far end.
func ways(b *testing.B, size int, run func(b *testing.B, l *Link, dst transport.Remote)) {
	over := func(b *testing.B, near, far *Node, dial func(func())) {
		p, _ := memory(b, size)
		dst := transport.Remote{Region: far.Register(NewHostMemory(p, int64(size), false))}
		var l *Link
		var err error
		dial(func() { l, err = near.Dial(context.Background(), far.Addr(), far.NewEndpoint(), 1, LinkOptions{}) })
		if err != nil {
			b.Fatal(err)
		}
		run(b, l, dst)
		_ = l.Close()
	}
	b.Run("loopback", func(b *testing.B) { over(b, node(b, Options{}), node(b, Options{}), func(f func()) { f() }) })
	b.Run("namespaces", func(b *testing.B) {
		if os.Geteuid() != 0 {
			b.Skip("needs root to enter network namespaces")
		}
		x, y := testutil.Hosts(b)
		nodes := make([]*Node, 2)
		for i, ns := range []string{x, y} {
			at := netip.MustParseAddrPort(fmt.Sprintf("10.207.0.%d:0", i+1))
			testutil.Inside(b, ns, func() {
				n, err := Listen(at, Options{Log: quiet()})
				if err != nil {
					b.Error(err)
					return
				}
				nodes[i] = n
				b.Cleanup(func() { _ = n.Close() })
			})
		}
		if !b.Failed() {
			over(b, nodes[0], nodes[1], func(f func()) { testutil.Inside(b, x, f) })
		}
	})
}

// BenchmarkPut writes and flushes.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{8, 64 << 10, 1 << 20, 64 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			ways(b, size, func(b *testing.B, l *Link, dst transport.Remote) {
				src, _ := memory(b, size)
				b.SetBytes(int64(size))
				for b.Loop() {
					if err := l.Write(dst, src, int64(size)); err != nil {
						b.Fatal(err)
					}
					if err := l.Flush(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkFlush is a round trip of the smallest frames.
func BenchmarkFlush(b *testing.B) {
	ways(b, 8, func(b *testing.B, l *Link, _ transport.Remote) {
		for b.Loop() {
			if err := l.Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
