package tcp

import (
	"io"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/goccl/goccl/test/nettest"
	"github.com/goccl/goccl/transport"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// testNet is a Net of the loopback.
func testNet(opt NetOptions) func(testing.TB) transport.Net {
	return func(testing.TB) transport.Net {
		opt.Interface, opt.Log = "lo", quiet()
		return NewNet(opt)
	}
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

func TestNet(t *testing.T) { nettest.Run(t, nettest.Config{Net: testNet(NetOptions{Sockets: 3})}) }

func TestEncryptedNet(t *testing.T) {
	nettest.Run(t, nettest.Config{Net: testNet(NetOptions{Sockets: 2, Encrypt: true}), Max: 2 << 20})
}
