package testutil

import (
	"testing"

	"github.com/goccl/goccl/internal/netns"
	"github.com/goccl/goccl/test/badnet"
)

// Network is a number of hosts whose network a test can break.
type Network struct {
	*netns.Network
	t testing.TB
}

// NewNetwork makes n connected hosts. If that is not permitted, it skips the test with the reason.
func NewNetwork(t testing.TB, n int) *Network {
	t.Helper()
	w, err := netns.New(n)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(w.Close)
	return &Network{w, t}
}

// Port sets the switch's port of host i "up" or "down", see badnet.
func (w *Network) Port(i int, state string) {
	w.t.Helper()
	w.must(badnet.Port(w.Network, i, state))
}

// Interface sets the interface of host i "up" or "down".
func (w *Network) Interface(i int, state string) {
	w.t.Helper()
	w.must(badnet.Interface(w.Network, i, state))
}

// Lose makes host i lose the given share of the packets that it gets. It skips the test where that is not possible.
func (w *Network) Lose(i int, share float64) {
	w.t.Helper()
	if err := badnet.Lose(w.Network, i, share); err != nil {
		w.t.Skip(err)
	}
}

// Reset resets all TCP connections of host i with other hosts. It skips the test where that is not possible.
func (w *Network) Reset(i int) {
	w.t.Helper()
	if err := badnet.Reset(w.Network, i); err != nil {
		w.t.Skip(err)
	}
}

func (w *Network) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}
