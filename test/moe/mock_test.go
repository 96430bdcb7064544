package moe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/moe"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/mockcuda"
)

func TestMock(t *testing.T) { commtest.RunOnMock(t) }

// step enqueues the three operations of a decode step, with rows of float8.
func step(m *goccl.MoE, s *cuda.Stream, memory device.Ptr) error {
	shape := moe.Shape{Layout: moe.Experts, Hidden: 256, TopK: 4, Experts: 16}
	h := moe.Handle{Shape: shape, Memory: memory, Tokens: 8}
	at := func(k int64) device.Ptr { return memory.Add(k << 20) }
	return errors.Join(
		m.Notify(moe.NotifyArgs{Handle: h, TopKIndex: at(1), Stream: s}),
		m.Dispatch(moe.DispatchArgs{Handle: h, X: at(2), Type: datatype.Bfloat16, Quantize: true, RecvX: at(3),
			RecvScales: at(4), RecvRows: 32, Stream: s}),
		m.Combine(moe.CombineArgs{Handle: h, X: at(5), Rows: 32, Weights: at(6), Index: at(1), Out: at(7), Blocks: 10,
			Stream: s}))
}

func onMock(t *testing.T) ([]*goccl.MoE, []*goccl.Comm) {
	t.Helper()
	comms := commtest.OnMock(t, 4, nil)
	all := make([]*goccl.MoE, len(comms))
	if err := commtest.Each(len(comms), func(r int) (err error) {
		all[r], err = comms[r].NewMoE(t.Context(), moe.Size{Bytes: 4 << 20})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all, comms
}

// A goroutine looks for failures of the device while nothing else uses the buffer, from its first moment on.
func TestOnMockWatch(t *testing.T) {
	all, _ := onMock(t)
	time.Sleep(200 * time.Millisecond) // a few looks, so that the race detector has something to see
	for r, m := range all {
		if err := m.Err(); err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// The launches of a step: no copy, no wait of the host. A kernel that moves few rows has 96 blocks, or the number that
// the call wants.
func TestOnMockLaunches(t *testing.T) {
	all, comms := onMock(t)
	trace, err := commtest.MockTrace()
	if err != nil {
		t.Fatal(err)
	}
	memory, err := comms[1].Device().Alloc(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s := commtest.MockStream(t, comms[1])
	for round := range 2 {
		trace.Start()
		err = step(all[1], s, memory.Ptr())
		calls, terr := trace.Stop()
		if err := errors.Join(err, terr); err != nil {
			t.Fatal(err)
		}
		var kernels []string
		for _, c := range calls {
			if c.Kind == mockcuda.CaptureQuery {
				continue
			}
			if c.Kind != mockcuda.Launch {
				t.Errorf("round %d: %v between launches", round, c)
				continue
			}
			_, name, _ := strings.Cut(c.Kernel, "moe_")
			kernels = append(kernels, name)
			want := map[string]int{"notify": 4, "quantize": 1, "dispatch": 96, "combine_experts": 10}[name]
			if int(c.Grid) != want {
				t.Errorf("%s has %d blocks, not %d", name, c.Grid, want)
			}
			if name == "quantize" { // the arguments of the others begin with those that all have
				continue
			}
			rank, n := binary.LittleEndian.Uint32(c.Params[152:]), binary.LittleEndian.Uint32(c.Params[156:])
			if rank != 1 || n != 4 {
				t.Errorf("%s is for rank %d of %d", name, rank, n)
			}
		}
		if want := []string{"notify", "quantize", "dispatch", "combine_experts"}; !slices.Equal(kernels, want) {
			t.Errorf("launches %v, not %v", kernels, want)
		}
	}
	if err := errors.Join(s.Close(), memory.Close()); err != nil {
		t.Error(err)
	}
}

// A mask changes memory that the kernels read, and nothing of their launches, so graphs remain valid.
func TestOnMockMask(t *testing.T) {
	all, comms := onMock(t)
	trace, err := commtest.MockTrace()
	if err != nil {
		t.Fatal(err)
	}
	memory, err := comms[1].Device().Alloc(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s := commtest.MockStream(t, comms[1])
	launches := func() (params [][]byte) {
		trace.Start()
		err := step(all[1], s, memory.Ptr())
		calls, terr := trace.Stop()
		if err := errors.Join(err, terr); err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			if c.Kind == mockcuda.Launch {
				params = append(params, c.Params)
			}
		}
		return params
	}
	before := launches()
	mask := moe.Mask{Gone: []bool{false, false, false, true}, Replicas: slices.Repeat([]int32{5}, 16)}
	if err := commtest.Each(3, func(r int) error { return all[r].SetMask(t.Context(), mask) }); err != nil {
		t.Fatal(err)
	}
	for i, p := range launches() {
		if !bytes.Equal(p, before[i]) {
			t.Errorf("launch %d differs", i)
		}
		if i == 1 { // quantize
			continue
		}
		state := make([]byte, 16)
		table := make([]byte, 64)
		if err := errors.Join(comms[1].Device().CopyOut(state, device.Ptr(binary.LittleEndian.Uint64(p[144:]))),
			comms[1].Device().CopyOut(table, device.Ptr(binary.LittleEndian.Uint64(p[256:])))); err != nil {
			t.Fatal(err)
		}
		if want := put([]uint32{1, 0, 1<<16 | 1<<3, 16}); !bytes.Equal(state, want) ||
			!bytes.Equal(table, put(mask.Replicas)) {
			t.Errorf("launch %d: state % x, not % x; replicas % x", i, state, want, table)
		}
	}
	if err := errors.Join(s.Close(), memory.Close()); err != nil {
		t.Error(err)
	}
}

// A rank of more tokens than go as packets has kernels with stages: two stages for each warp of a block, or fewer if
// shared memory has room for fewer. If too few fit, or there are few tokens, kernels without stages run.
func TestOnMockStages(t *testing.T) {
	all, comms := onMock(t)
	trace, err := commtest.MockTrace()
	if err != nil {
		t.Fatal(err)
	}
	memory, err := comms[0].Device().Alloc(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s := commtest.MockStream(t, comms[0])
	for _, c := range []struct {
		hidden, tokens int
		stages         uint32 // 0: plain kernels
	}{{128, 257, 32}, {128, 100, 0}, {1 << 14, 8, 7}, {1 << 15, 5, 0}} {
		h := moe.Handle{Shape: moe.Shape{Hidden: c.hidden, TopK: 2, Experts: 4}, Memory: memory.Ptr(),
			Tokens: c.tokens}
		trace.Start()
		err := errors.Join(
			all[0].Dispatch(moe.DispatchArgs{Handle: h, X: memory.Ptr(), Type: datatype.Bfloat16, Stream: s}),
			all[0].Combine(moe.CombineArgs{Handle: h, X: memory.Ptr(), Out: memory.Ptr(), Stream: s}))
		calls, terr := trace.Stop()
		if err := errors.Join(err, terr); err != nil {
			t.Fatal(err)
		}
		names := []string{"dispatch", "combine_rows"}
		if c.stages != 0 {
			names = []string{"dispatch_staged", "combine_staged"}
		}
		for _, call := range calls {
			if call.Kind != mockcuda.Launch {
				continue
			}
			_, name, _ := strings.Cut(call.Kernel, "moe_")
			stage := binary.LittleEndian.Uint32(call.Params[280+100:]) // in Row, behind Head
			stages := binary.LittleEndian.Uint32(call.Params[280+104:])
			if len(names) == 0 || name != names[0] || stages != c.stages || stages*(stage+16) > call.Shared ||
				(stages == 0) != (call.Shared == 0) {
				t.Errorf("%d tokens of %d elements: %s with %d stages of %d bytes, %d of shared memory; want %v with %d",
					c.tokens, c.hidden, name, stages, stage, call.Shared, names, c.stages)
			}
			names = names[min(1, len(names)):]
		}
		if len(names) != 0 {
			t.Errorf("%v were not launched", names)
		}
	}
	if err := errors.Join(s.Close(), memory.Close()); err != nil {
		t.Error(err)
	}
}

// A graph holds a step, and its launches have the arguments of eager ones: nothing changes from launch to launch.
func TestOnMockGraph(t *testing.T) {
	all, comms := onMock(t)
	memory, err := comms[2].Device().Alloc(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s := commtest.MockStream(t, comms[2])
	x, nodes, err := commtest.CaptureNodes(s, cuda.CaptureThreadLocal, func() error {
		return errors.Join(step(all[2], s, memory.Ptr()), step(all[2], s, memory.Ptr()))
	})
	if err != nil {
		t.Fatal(err)
	}
	if nodes < 8 {
		t.Errorf("%d nodes for two steps of four kernels", nodes)
	}
	for range 3 {
		if err := x.Launch(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Synchronize(t.Context()), x.Close(), step(all[2], s, memory.Ptr())); err != nil {
		t.Fatal(err)
	}
}
