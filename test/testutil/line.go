package testutil

import (
	"testing"

	"github.com/goccl/goccl/test/badnet"
)

// Inside calls f in a network namespace of "ip netns". Sockets that f makes belong to it.
func Inside(t testing.TB, ns string, f func()) {
	t.Helper()
	if err := badnet.Inside(ns, f); err != nil {
		t.Fatal(err)
	}
}

// HostsOnLine is Hosts with a Line as the cable. If that is not permitted, it skips the test with the reason.
func HostsOnLine(t testing.TB) (a, b string, line *badnet.Line) {
	t.Helper()
	line, err := badnet.NewLine()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(line.Close)
	return line.Hosts[0], line.Hosts[1], line
}
