package goccl_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/conformance"
)

// All-gathers and all-to-alls by copy engines, on all GPUs of the process: eager, many in a row without a wait, and out of graphs. Every byte of the window is
// looked at, those around the output too.
func TestGPUWindows(t *testing.T) {
	t.Setenv("GOCCL_COPY_ENGINE", "1")
	const largest, offset, guard, poison, rounds = 9<<20 + 48, 1 << 16, 4096, 0xa5, 3
	comms := twoGPUs(t)
	n := len(comms)
	slices := []int64{1 << 20, 1<<20 + 1, 5<<20 - 16, largest}
	rng := rand.New(rand.NewPCG(3, 4))
	inputs := make([][]byte, n)
	for r := range inputs {
		inputs[r] = make([]byte, n*largest+rounds)
		for i := 0; i < len(inputs[r]); i += 8 {
			v := rng.Uint64()
			for j := i; j < min(i+8, len(inputs[r])); j++ {
				inputs[r][j], v = byte(v), v>>8
			}
		}
	}
	if err := each(n, func(r int) error {
		w, err := newWindowed(comms[r], int64(n*largest+rounds), int64(offset+n*largest+guard))
		if err != nil {
			return err
		}
		defer w.close()
		if err := w.c.Device().CopyIn(w.send.Ptr(), inputs[r]); err != nil {
			return err
		}
		recv := w.recv.Ptr().Add(offset)
		whole := make([]byte, w.recv.Size())
		for _, coll := range []algorithm.Collective{algorithm.AllGather, algorithm.AllToAll} {
			for _, slice := range slices {
				for _, how := range []string{"eager", "captured", "in place"} {
					if coll == algorithm.AllToAll && how == "in place" {
						continue
					}
					what := fmt.Sprintf("rank %d: %v of %d bytes, %s", r, coll, slice, how)
					// Ranks meet before each poisons its own output: peers' copies of the case before have all arrived.
					if err := w.settle(); err != nil {
						return fmt.Errorf("%s: %w", what, err)
					}
					if err := w.s.Memset(w.recv.Ptr(), poison, w.recv.Size()); err != nil {
						return err
					}
					call := func(round int64) error { // each round has another input: what an earlier one left is wrong
						from := w.send.Ptr().Add(round)
						if how == "in place" {
							from = recv.Add(int64(r) * slice)
							if err := w.s.Copy(from, w.send.Ptr().Add(round), slice); err != nil {
								return err
							}
						}
						if coll == algorithm.AllToAll {
							return w.c.AllToAll(from, recv, slice, datatype.Uint8, w.s)
						}
						return w.c.AllGather(from, recv, slice, datatype.Uint8, w.s)
					}
					all := func() error {
						for round := range int64(rounds) {
							if err := call(round); err != nil {
								return err
							}
						}
						return nil
					}
					if how == "captured" {
						x, nodes, err := captureNodes(w.s, cuda.CaptureRelaxed, all)
						if err != nil {
							return fmt.Errorf("%s: %w", what, err)
						}
						w.graphs = append(w.graphs, x)
						if want := rounds * (n + 2); nodes != want { // two barriers and n copies: kernels would be fewer
							return fmt.Errorf("%s: the graph has %d operations, not the %d of copy engines", what, nodes, want)
						}
						all = func() error {
							for range rounds {
								if err := x.Launch(w.s); err != nil {
									return err
								}
							}
							return nil
						}
					}
					if err := all(); err != nil {
						return fmt.Errorf("%s: %w", what, err)
					}
					if err := w.wait(); err != nil {
						return fmt.Errorf("%s: %w", what, err)
					}
					if err := w.c.Device().CopyOut(whole, w.recv.Ptr()); err != nil {
						return err
					}
					want := bytes.Repeat([]byte{poison}, len(whole))
					for p := range n {
						from := int64(rounds - 1)
						if coll == algorithm.AllToAll {
							from += int64(r) * slice
						}
						copy(want[offset+int64(p)*slice:], inputs[p][from:][:slice])
					}
					if !bytes.Equal(whole, want) {
						return fmt.Errorf("%s: %s", what, difference(whole, want))
					}
				}
			}
		}
		return w.settle()
	}); err != nil {
		t.Fatal(err)
	}
}

// windowed is a rank with an input, and an output that is a window.
type windowed struct {
	c          *goccl.Comm
	s          *cuda.Stream
	send, recv device.Allocation
	window     *goccl.Window
	graphs     []*cuda.Exec
}

func newWindowed(c *goccl.Comm, send, recv int64) (w *windowed, err error) {
	w = &windowed{c: c}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.s, err = gpuStream(c); err != nil {
		return w, err
	}
	if w.send, err = c.Device().Alloc(send); err != nil {
		return w, err
	}
	if w.recv, err = c.Device().Alloc(recv); err != nil {
		return w, err
	}
	w.window, err = c.RegisterWindow(w.recv.Ptr(), recv)
	return w, err
}

func (w *windowed) wait() error {
	ctx, stop := context.WithTimeout(context.Background(), conformance.Timeout)
	defer stop()
	return w.c.Synchronize(ctx, w.s)
}

// settle returns when all ranks have called it and their streams are done.
func (w *windowed) settle() error {
	if err := w.c.Barrier(w.s); err != nil {
		return err
	}
	return w.wait()
}

func (w *windowed) close() {
	for _, x := range w.graphs {
		_ = x.Close()
	}
	if w.window != nil {
		_ = w.window.Close()
	}
	for _, m := range []device.Allocation{w.send, w.recv} {
		if m != nil {
			_ = m.Close()
		}
	}
	if w.s != nil {
		_ = w.s.Close()
	}
}
