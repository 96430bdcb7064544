package tcp

import (
	"testing"

	"github.com/goccl/goccl/test/nettest"
	"github.com/goccl/goccl/transport"
)

// testNet is a Net of the loopback.
func testNet(opt NetOptions) func(testing.TB) transport.Net {
	return func(testing.TB) transport.Net {
		opt.Interface, opt.Log = "lo", quiet()
		return NewNet(opt)
	}
}

func TestNet(t *testing.T) { nettest.Run(t, nettest.Config{Net: testNet(NetOptions{Sockets: 3})}) }

func TestEncryptedNet(t *testing.T) {
	nettest.Run(t, nettest.Config{Net: testNet(NetOptions{Sockets: 2, Encrypt: true}), Max: 2 << 20})
}
