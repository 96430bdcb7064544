package cudawire

import (
	"bytes"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/test/testutil"
)

// A captured phase runs at each launch of its graph, with the data of that time, between eager ones.
func TestGraph(t *testing.T) {
	all := ranks(t, 2, newMemNet(8), nil)
	if mock {
		t.Skip("the mock driver runs no kernels, and the emulation sees no graphs")
	}
	const count, replays = 5000, 40
	graphs := make([]*cuda.Exec, len(all))
	phases := make([]wire.Phase, len(all))
	for r, w := range all {
		in, out := w.memory(t, 4*count), w.memory(t, 4*count)
		phases[r] = wire.Phase{Sends: []wire.Part{{Peer: 1 - r, Ptr: in, Bytes: 4 * count}},
			Reduces: []wire.Reduction{{Peers: []int{0, 1}, Own: in, Dst: out, Count: count, Type: datatype.Float32,
				Op: datatype.Sum, Ranks: 2}}}
		must(t, w.stream.BeginCapture(cuda.CaptureRelaxed))
		for range 3 {
			must(t, w.Run(w.stream, someOp, &phases[r]))
		}
		g, err := w.stream.EndCapture()
		must(t, err)
		graphs[r], err = g.Instantiate()
		must(t, err)
	}
	for seed := range uint64(replays) {
		for r, w := range all {
			b := make([]byte, 4*count)
			hostreduce.Fill(b, datatype.Float32, seed, r)
			w.fill(t, phases[r].Sends[0].Ptr, b)
		}
		for r, w := range all {
			if seed%4 == 3 {
				must(t, w.Run(w.stream, someOp, &phases[r]))
			} else {
				must(t, graphs[r].Launch(w.stream))
			}
		}
		want := make([]byte, 4*count)
		must(t, testutil.Expected(want, datatype.Float32, datatype.Sum, seed, 2))
		for r, w := range all {
			w.wait(t)
			if !bytes.Equal(w.read(t, phases[r].Reduces[0].Dst, 4*count), want) {
				t.Fatalf("launch %d: rank %d has wrong data", seed, r)
			}
		}
	}
}
