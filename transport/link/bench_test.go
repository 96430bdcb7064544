package link

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/tcp"
)

// overTCP is a link over encrypted TCP on the loopback.
func overTCP(b *testing.B, size int) *rig {
	open := func() transport.Port {
		p, err := tcp.NewNet(tcp.NetOptions{Encrypt: true}).OpenAt(netip.MustParseAddr("127.0.0.1"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = p.Close() })
		return p
	}
	return connect(b, open(), open(), size, true)
}

// BenchmarkPut writes and flushes.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{8, 64 << 10, 1 << 20, 64 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := overTCP(b, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := r.link.Write(r.dst, r.src, int64(size)); err != nil {
					b.Fatal(err)
				}
				if err := r.link.Flush(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFlush is a round trip of the smallest commands.
func BenchmarkFlush(b *testing.B) {
	r := overTCP(b, 8)
	for b.Loop() {
		if err := r.link.Flush(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
