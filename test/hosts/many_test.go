package hosts_test

import (
	"testing"

	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/commtest"
)

// TestManyHosts runs ranks on many hosts, each with its connections to the ranks of its rail.
func TestManyHosts(t *testing.T) {
	hosts, ranks := 8, 2
	if setting.Lenient().Full != "" {
		hosts, ranks = 32, 4
	}
	layout := make([]int, hosts*ranks)
	for r := range layout {
		layout[r] = r / ranks
	}
	comms := commtest.NewOn(t, layout, commtest.Host, nil)
	c := commtest.SomeCase
	run(t, comms, c)
	c.Count = 1 << 16
	run(t, comms, c)
}
