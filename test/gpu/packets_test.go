package gpu_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// Small all-gathers whose lines arrive where other packets were, many of them launched at once, with every result
// checked: data of an older packet must never be taken for a newer packet's data. Lines of 128 bytes alone, and in
// alternation with packets of 16 bytes (a barrier).
func TestGPUPacketsAfterPackets(t *testing.T) {
	for name, barriers := range map[string]bool{"lines": false, "lines and packets": true} {
		t.Run(name, func(t *testing.T) {
			const count, rounds, batches = 1013, 16, 2000
			comms := commtest.TwoGPUs(t)
			n := len(comms)
			rng := rand.New(rand.NewPCG(1, 2))
			inputs := make([][]byte, rounds) // of all ranks, concatenated
			for i := range inputs {
				inputs[i] = make([]byte, n*count)
				for j := range inputs[i] {
					inputs[i][j] = byte(rng.Uint32())
				}
			}
			if err := commtest.Each(n, func(r int) error {
				c := comms[r]
				s, err := commtest.GPUStream(c)
				if err != nil {
					return err
				}
				defer func() { _ = s.Close() }()
				mem, err := c.Device().Alloc(int64(rounds*(1+n)*1024*2 + 64))
				if err != nil {
					return err
				}
				defer func() { _ = mem.Close() }()
				at := int64(0)
				take := func(size int64) device.Ptr {
					at += (size + 15) &^ 15
					return mem.Ptr().Add(at - (size+15)&^15)
				}
				one := take(16)
				send, recv := make([]device.Ptr, rounds), make([]device.Ptr, rounds)
				for i := range rounds {
					send[i], recv[i] = take(count), take(int64(n)*count)
					if err := c.Device().CopyIn(send[i], inputs[i][r*count:][:count]); err != nil {
						return err
					}
				}
				got := make([]byte, n*count)
				for b := range batches {
					for i := range rounds {
						calls := []goccl.Call{
							{Comm: c, Request: collective.Request{Collective: collective.AllReduce, Count: 1, Type: datatype.Uint8,
								Op: datatype.Sum, Send: one, Recv: one, Stream: s}},
							{Comm: c, Request: collective.Request{Collective: collective.AllGather, Count: count, Type: datatype.Uint8,
								Send: send[i], Recv: recv[i], Stream: s}},
						}
						if barriers {
							calls = append([]goccl.Call{{Comm: c, Request: collective.Request{Collective: collective.Barrier, Stream: s}}},
								calls...)
						}
						if !barriers || i%2 == 0 { // also at the other parity
							calls = append(calls, calls[len(calls)-2])
						}
						if err := goccl.Submit(calls); err != nil {
							return err
						}
					}
					ctx, cancel := context.WithTimeout(context.Background(), conformance.Timeout)
					err := c.Synchronize(ctx, s)
					cancel()
					if err != nil {
						return err
					}
					for i := range rounds {
						if err := c.Device().CopyOut(got, recv[i]); err != nil {
							return err
						}
						if !bytes.Equal(got, inputs[i]) {
							return fmt.Errorf("rank %d: batch %d, round %d: %s", r, b, i, difference(got, inputs[i]))
						}
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
