package tcp

import (
	"testing"

	"github.com/goccl/goccl/test/nettest"
	"github.com/goccl/goccl/transport"
)

// BenchmarkNet measures a Net over the loopback, both ends in this process.
func BenchmarkNet(b *testing.B) {
	for name, opt := range map[string]NetOptions{"sockets=1": {Sockets: 1}, "sockets=2": {Sockets: 2},
		"sockets=4": {Sockets: 4}, "sockets=8": {Sockets: 8}, "encrypted": {Encrypt: true}} {
		b.Run(name, func(b *testing.B) {
			nettest.Bench(b, func(t testing.TB) transport.Net { return testNet(opt)(t) })
		})
	}
}

// BenchmarkProcesses measures it between two processes.
func BenchmarkProcesses(b *testing.B) {
	nettest.BenchProcesses(b, func(t testing.TB) transport.Net { return testNet(NetOptions{})(t) })
}
