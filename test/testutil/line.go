package testutil

import (
	"testing"

	"github.com/goccl/goccl/internal/netns"
)

// Inside calls f in a network namespace of "ip netns". Sockets that f makes belong to it.
func Inside(t testing.TB, ns string, f func()) {
	t.Helper()
	if err := netns.Inside(ns, f); err != nil {
		t.Fatal(err)
	}
}

// HostsOnLine is Hosts with a Line as the cable. If that is not permitted, it skips the test with the reason.
func HostsOnLine(t testing.TB) (a, b string, line *netns.Line) {
	t.Helper()
	w, line, err := netns.NewOnLine()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(w.Close)
	return w.Hosts[0], w.Hosts[1], line
}
