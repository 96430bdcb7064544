package gpu_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// copyCase is a collective in a window, and whether the copy engines must run it.
type copyCase struct {
	coll   collective.Collective
	slice  int64
	copied bool
}

const (
	copyOffset = 1 << 16 // offset of the output in the window
	copyGuard  = 4096    // bytes after the output
	copyPoison = 0xa5
	copyRounds = 3 // in a row, without a wait
)

// All-gathers and all-to-alls into windows on all GPUs of the process, around the sizes from which the copy engines run
// them: eager, many in a row without a wait, and in graphs, in place and not. The test compares every byte of the
// window, also those around the output.
func TestGPUWindows(t *testing.T) {
	const gather, toAll = collective.AllGather, collective.AllToAll
	for _, c := range []struct {
		setting string // of GOCCL_COPY_ENGINE
		cases   []copyCase
	}{
		{"", []copyCase{
			{gather, 1 << 20, false}, {gather, 64<<20 - 16, false}, {gather, 64 << 20, true}, {gather, 64<<20 + 49, true},
			{toAll, 1 << 20, false}, {toAll, 32<<20 - 16, false}, {toAll, 32 << 20, true}, {toAll, 32<<20 + 49, true},
		}},
		{"1", []copyCase{
			{gather, 1<<20 - 1, false}, {gather, 1 << 20, true}, {gather, 1<<20 + 1, true}, {gather, 5<<20 - 16, true},
			{gather, 9<<20 + 48, true},
			{toAll, 1<<20 - 1, false}, {toAll, 1 << 20, true}, {toAll, 1<<20 + 1, true}, {toAll, 5<<20 - 16, true},
			{toAll, 9<<20 + 48, true},
		}},
		{"0", []copyCase{{gather, 64 << 20, false}, {toAll, 32 << 20, false}}},
	} {
		t.Run("GOCCL_COPY_ENGINE="+c.setting, func(t *testing.T) {
			t.Setenv("GOCCL_COPY_ENGINE", c.setting)
			comms := commtest.TwoGPUs(t)
			send, recv := room(c.cases, len(comms))
			inputs := copyInputs(len(comms), send)
			if err := commtest.Each(len(comms), func(r int) error {
				w, err := newWindowed(comms[r], r, send, recv, inputs)
				if err != nil {
					return err
				}
				defer w.close()
				for _, k := range c.cases {
					for _, how := range []string{"eager", "captured", "in place", "in place, captured"} {
						if k.coll == toAll && strings.HasPrefix(how, "in place") {
							continue
						}
						if err := w.try(k, strings.HasPrefix(how, "in place"), strings.HasSuffix(how, "captured")); err != nil {
							return fmt.Errorf("rank %d: %v of %d bytes a rank, %s: %w", r, k.coll, k.slice, how, err)
						}
					}
				}
				return w.settle()
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Two communicators of the same GPUs in alternation, on a stream each and on one, eager and in one graph.
func TestGPUWindowsOfTwoCommunicators(t *testing.T) {
	cases := []copyCase{{collective.AllGather, 64<<20 + 16, true}, {collective.AllToAll, 32<<20 + 16, true}}
	t.Setenv("GOCCL_COPY_ENGINE", "")
	comms := [][]*goccl.Comm{commtest.TwoGPUs(t), commtest.TwoGPUs(t)}
	n := len(comms[0])
	send, recv := room(cases, n)
	inputs := copyInputs(n, send)
	if err := commtest.Each(n, func(r int) error {
		var w [2]*windowed
		for i := range w {
			var err error
			if w[i], err = newWindowed(comms[i][r], r, send, recv, inputs); err != nil {
				return err
			}
			defer w[i].close()
		}
		for _, how := range []string{"two streams", "one stream", "one graph"} {
			for i := range w {
				if err := w[i].poison(); err != nil {
					return err
				}
			}
			streams := [2]*cuda.Stream{w[0].s, w[1].s}
			if how != "two streams" {
				streams[1] = w[0].s
				if err := w[1].wait(); err != nil {
					return err
				}
			}
			turns := func() error {
				for round := range int64(2 * copyRounds) { // each round the other collective
					for i := range w {
						if err := w[i].call(cases[(int(round)+i)%2], round/2, false, streams[i]); err != nil {
							return err
						}
					}
				}
				return nil
			}
			if how == "one graph" {
				x, nodes, err := commtest.CaptureNodes(streams[0], cuda.CaptureRelaxed, turns)
				if err != nil {
					return fmt.Errorf("rank %d, %s: %w", r, how, err)
				}
				w[0].graphs = append(w[0].graphs, x)
				if want := 2 * (2*copyRounds*(n+2) + orderNodes); nodes != want {
					return fmt.Errorf("rank %d: the graph has %d operations, not the %d of copy engines", r, nodes, want)
				}
				turns = func() error { return errors.Join(x.Launch(streams[0]), x.Launch(streams[0])) }
			}
			if err := turns(); err != nil {
				return fmt.Errorf("rank %d, %s: %w", r, how, err)
			}
			for i := range w {
				last := cases[(2*copyRounds-1+i)%2]
				if err := w[i].waitFor(streams[i]); err != nil {
					return fmt.Errorf("rank %d, %s: %w", r, how, err)
				}
				// Bytes after the last output are not compared: an earlier collective, perhaps the larger all-gather,
				// has written them.
				if err := w[i].check(last, copyRounds-1, false); err != nil {
					return fmt.Errorf("rank %d, %s, communicator %d: %w", r, how, i, err)
				}
			}
		}
		return errors.Join(w[0].settle(), w[1].settle())
	}); err != nil {
		t.Fatal(err)
	}
}

// room returns how many bytes of input, and of window, the cases need on each of n ranks.
func room(cases []copyCase, n int) (send, recv int64) {
	for _, c := range cases {
		in := c.slice
		if c.coll == collective.AllToAll {
			in *= int64(n)
		}
		send, recv = max(send, in+copyRounds), max(recv, copyOffset+int64(n)*c.slice+copyGuard)
	}
	return send, recv
}

// copyInputs returns noise, different for each rank.
func copyInputs(n int, size int64) [][]byte {
	inputs := make([][]byte, n)
	for r := range inputs {
		rng := rand.New(rand.NewPCG(3, uint64(r)))
		inputs[r] = make([]byte, (size+7)&^7)
		for i := 0; i < len(inputs[r]); i += 8 {
			binary.NativeEndian.PutUint64(inputs[r][i:], rng.Uint64())
		}
		inputs[r] = inputs[r][:size]
	}
	return inputs
}

// windowed is a rank with an input, and an output that is a window.
type windowed struct {
	c          *goccl.Comm
	rank       int
	inputs     [][]byte // of all ranks
	s          *cuda.Stream
	send, recv device.Allocation
	window     *goccl.Window
	graphs     []*cuda.Exec
	whole      []byte // what the window held
}

func newWindowed(c *goccl.Comm, rank int, send, recv int64, inputs [][]byte) (w *windowed, err error) {
	w = &windowed{c: c, rank: rank, inputs: inputs, whole: make([]byte, recv)}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.s, err = commtest.GPUStream(c); err != nil {
		return w, err
	}
	if w.send, err = c.Device().Alloc(send); err != nil {
		return w, err
	}
	if w.recv, err = c.Device().Alloc(recv); err != nil {
		return w, err
	}
	if err = c.Device().CopyIn(w.send.Ptr(), inputs[rank]); err != nil {
		return w, err
	}
	w.window, err = c.RegisterWindow(w.recv.Ptr(), recv)
	return w, err
}

// poison fills the window. Ranks synchronise before each poisons its own window, so that all copies of peers from the
// case before have arrived. The next collective synchronises them again.
func (w *windowed) poison() error {
	if err := w.settle(); err != nil {
		return err
	}
	return w.s.Memset(w.recv.Ptr(), copyPoison, int64(len(w.whole)))
}

// call enqueues a collective. Each round has another input, so the result of an earlier round is wrong.
func (w *windowed) call(k copyCase, round int64, inPlace bool, s *cuda.Stream) error {
	from, recv := w.send.Ptr().Add(round), w.recv.Ptr().Add(copyOffset)
	if inPlace {
		to := recv.Add(int64(w.rank) * k.slice)
		if err := s.Copy(to, from, k.slice); err != nil {
			return err
		}
		from = to
	}
	if k.coll == collective.AllToAll {
		return w.c.AllToAll(from, recv, k.slice, datatype.Uint8, s)
	}
	return w.c.AllGather(from, recv, k.slice, datatype.Uint8, s)
}

// try runs a case and checks the result. In a graph, copy engines are recognised by their operations: two barriers and
// a copy of each slice, plus this rank's own slice before the collective if in place. Kernels need fewer.
func (w *windowed) try(k copyCase, inPlace, captured bool) error {
	if err := w.poison(); err != nil {
		return err
	}
	all := func() error {
		for round := range int64(copyRounds) {
			if err := w.call(k, round, inPlace, w.s); err != nil {
				return err
			}
		}
		return nil
	}
	if captured {
		x, nodes, err := commtest.CaptureNodes(w.s, cuda.CaptureRelaxed, all)
		if err != nil {
			return err
		}
		w.graphs = append(w.graphs, x)
		if copies := copyRounds*(len(w.inputs)+2) + orderNodes; (nodes == copies) != k.copied {
			return fmt.Errorf("the graph has %d operations; copy engines have %d, and running them is %v", nodes, copies,
				k.copied)
		}
		all = func() error {
			for range copyRounds {
				if err := x.Launch(w.s); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if err := all(); err != nil {
		return err
	}
	if err := w.wait(); err != nil {
		return err
	}
	return w.check(k, copyRounds-1, true)
}

// check compares the window: the output of a round and, around it, poison.
func (w *windowed) check(k copyCase, round int64, around bool) error {
	if err := w.c.Device().CopyOut(w.whole, w.recv.Ptr()); err != nil {
		return err
	}
	from := round
	if k.coll == collective.AllToAll {
		from += int64(w.rank) * k.slice
	}
	at := int64(copyOffset)
	for p := range w.inputs {
		if got, want := w.whole[at:][:k.slice], w.inputs[p][from:][:k.slice]; !bytes.Equal(got, want) {
			return fmt.Errorf("what rank %d sent: %s", p, difference(got, want))
		}
		at += k.slice
	}
	if !around {
		return nil
	}
	for _, rest := range [][]byte{w.whole[:copyOffset], w.whole[at:]} {
		if n := bytes.Count(rest, []byte{copyPoison}); n != len(rest) {
			return fmt.Errorf("%d bytes around the output were overwritten", len(rest)-n)
		}
	}
	return nil
}

func (w *windowed) wait() error { return w.waitFor(w.s) }

func (w *windowed) waitFor(s *cuda.Stream) error {
	ctx, stop := context.WithTimeout(context.Background(), conformance.Timeout)
	defer stop()
	return w.c.Synchronize(ctx, s)
}

// settle returns when all ranks have called it and their streams are idle.
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
