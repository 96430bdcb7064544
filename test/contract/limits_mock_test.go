package contract_test

import (
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/mockcuda"
)

// MaxCTAs bounds the kernels of a communicator of several hosts, too: inside of a host and beside the network.
func TestOnMockMaxCTAsAcrossHosts(t *testing.T) {
	commtest.NeedMock(t)
	trace, err := commtest.MockTrace()
	if err != nil {
		t.Fatal(err)
	}
	const most = 6
	for _, hosts := range [][]int{{0, 0, 1, 1}, {0, 1}} {
		c := commtest.NewOn(t, hosts, func(r int) (device.Device, error) { return cuda.Open(r % 4) },
			func(_ int, cfg *goccl.Config) { cfg.MaxCTAs = most })[1]
		s, p := commtest.MockStream(t, c), commtest.Scratch(t, c)
		trace.Start()
		failed := c.AllReduce(p, p, 256<<10, datatype.Float32, datatype.Sum, s)
		calls, err := trace.Stop()
		if failed != nil || err != nil {
			t.Fatal(failed, err)
		}
		kernels := 0
		for _, l := range calls {
			if l.Kind == mockcuda.Launch {
				if kernels++; l.Grid > most {
					t.Errorf("hosts %v: %s has %d blocks, at most %d are allowed", hosts, l.Kernel, l.Grid, most)
				}
			}
		}
		if kernels == 0 {
			t.Errorf("hosts %v: no kernel", hosts)
		}
	}
}
