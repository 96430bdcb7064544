package cudawire

import (
	"bytes"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/test/mockcuda"
)

// A phase is one launch: its kernel and shape follow from the messages, their sizes and the type, and its parameters
// are those that the kernel declares.
func TestLaunches(t *testing.T) {
	if !mock || notes == nil {
		t.Skip("this test needs the mock driver: gcc, and no GPU")
	}
	w := ranks(t, 2, newMemNet(11), nil)[0]
	w.start = func(s *cuda.Stream, f *cuda.Function, cfg *cuda.Config, params []byte) error {
		return s.LaunchInOrder(f, cfg, params, w.launcher.Order)
	}
	p := w.memory(t, 8<<20)
	sends := func(messages int, n int64) (list []wire.Part) {
		for range messages {
			list = append(list, wire.Part{Peer: 1, Ptr: p, Bytes: n})
		}
		return list
	}
	sum := func(ty datatype.Type, count int64) []wire.Reduction {
		return []wire.Reduction{{Peers: []int{0, 1}, Own: p, Dst: p, Count: count, Type: ty, Ranks: 2}}
	}
	for _, c := range []struct {
		phase       wire.Phase
		kernel      string
		grid, block uint32
		params      int
	}{
		{wire.Phase{Sends: sends(1, 8)}, "wire_few_move", 1, 64, len(launcher.Raw(&fewArgs{}))},
		{wire.Phase{Sends: sends(1, 8), Recvs: sends(1, 1<<20)}, "wire_few_move", 8, 256, len(launcher.Raw(&fewArgs{}))},
		{wire.Phase{Sends: sends(9, 2048)}, "wire_move", 1, 128, len(launcher.Raw(&args{}))},
		{wire.Phase{Sends: sends(1, 4000), Reduces: sum(datatype.Float32, 1000)}, "wire_few_reduce_float32", 1, 256,
			len(launcher.Raw(&fewArgs{}))},
		{wire.Phase{Sends: sends(1, 4<<20), Reduces: sum(datatype.Uint8, 4<<20)}, "wire_reduce_int8", 8, 256,
			len(launcher.Raw(&args{}))},
	} {
		notes.Start()
		must(t, w.Run(w.stream, someOp, &c.phase))
		calls, err := notes.Stop()
		must(t, err)
		var launches []mockcuda.Call
		for _, x := range calls {
			if x.Kind == mockcuda.Launch {
				launches = append(launches, x)
			}
		}
		if len(launches) != 1 {
			t.Fatalf("%s: %d launches", c.kernel, len(launches))
		}
		x := launches[0]
		if x.Kernel != c.kernel || x.Grid != c.grid || x.Block != c.block || len(x.Params) != c.params {
			t.Errorf("%s of %d × %d threads, %d bytes of parameters: want %s, %d × %d, %d", x.Kernel, x.Grid, x.Block,
				len(x.Params), c.kernel, c.grid, c.block, c.params)
		}
		if !bytes.Equal(x.Params[8:16], launcher.Raw(&w.build.abort)) {
			t.Errorf("%s: another abort block", x.Kernel)
		}
	}
}
