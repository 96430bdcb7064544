package cudawire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/internal/hostreduce"
)

// narrow lets each rank have few blocks at a time, and checks that no launch has more, if it must not.
func narrow(t *testing.T, all []*rank, blocks int, must bool) {
	for _, w := range all {
		w.blocks = blocks
		start := w.start
		w.start = func(s *cuda.Stream, f *cuda.Function, cfg *cuda.Config, params []byte) error {
			if must && int(cfg.Grid[0]) > blocks {
				t.Errorf("a launch of %d blocks: %d fit", cfg.Grid[0], blocks)
			}
			return start(s, f, cfg, params)
		}
	}
}

// What a rank sends beside its reduction goes ahead if a launch cannot have both, or stays if the rings have no room.
func TestSendsAhead(t *testing.T) {
	const n = 4
	for _, count := range []int64{100, 5000} {
		all := ranks(t, n, newMemNet(13), small)
		narrow(t, all, 2, count == 100)
		var out [n]device.Ptr
		block := func(from, to int) []byte {
			b := make([]byte, 4*count)
			hostreduce.Fill(b, datatype.Int32, uint64(to), from)
			return b
		}
		for range 3 {
			for r, w := range all {
				w.reset()
				in := w.memory(t, n*4*count)
				out[r] = w.memory(t, 4*count)
				p := &wire.Phase{}
				x := wire.Reduction{Own: in.Add(int64(r) * 4 * count), Dst: out[r], Count: count, Type: datatype.Int32, Ranks: n}
				for q := range n {
					at := in.Add(int64(q) * 4 * count)
					w.fill(t, at, block(r, q))
					if x.Peers = append(x.Peers, q); q != r {
						p.Sends = append(p.Sends, wire.Part{Peer: q, Ptr: at, Bytes: 4 * count})
					}
				}
				p.Reduces = []wire.Reduction{x}
				must(t, w.Run(w.stream, someOp, p))
			}
			for r, w := range all {
				w.wait(t)
				want := make([]byte, 4*count)
				must(t, hostreduce.Reduce(want, [][]byte{block(0, r), block(1, r), block(2, r), block(3, r)}, datatype.Int32,
					datatype.Sum, [8]byte{}, n))
				if !bytes.Equal(w.read(t, out[r], 4*count), want) {
					t.Fatalf("%d elements: rank %d has a wrong sum", count, r)
				}
			}
		}
	}
}

// Messages whose sizes are in device memory when the phase runs, in one launch or several.
func TestCounted(t *testing.T) {
	for _, blocks := range []int{0, 1, 3} {
		testCounted(t, blocks)
	}
}

func testCounted(t *testing.T, blocks int) {
	const n, room = 3, 3000
	all := ranks(t, n, newMemNet(9), small)
	if blocks > 0 {
		narrow(t, all, blocks, true)
	}
	count := func(from, to int) int64 { return int64((from*7+to*5)%11) * 60 }
	var out [n]device.Ptr
	for r, w := range all {
		in := w.memory(t, 4*n*room)
		out[r] = w.memory(t, 4*n*room)
		c := &wire.Counted{Send: in, Recv: out[r], Size: 4, SendElements: n * room, RecvElements: n * room}
		for i, list := range []*device.Ptr{&c.SendCounts, &c.SendDispls, &c.RecvCounts, &c.RecvDispls} {
			var b []byte
			for q := range int64(n) {
				v := []int64{count(r, int(q)), q * room, count(int(q), r), q * room}[i]
				b = binary.LittleEndian.AppendUint64(b, uint64(v))
			}
			*list = w.memory(t, 8*n)
			w.fill(t, *list, b)
		}
		p := &wire.Phase{Counted: c}
		for q := range n {
			b := make([]byte, 4*room)
			hostreduce.Fill(b, datatype.Int32, uint64(q), r)
			w.fill(t, in.Add(int64(4*q*room)), b)
			if q != r {
				p.Sends, p.Recvs = append(p.Sends, wire.Part{Peer: q}), append(p.Recvs, wire.Part{Peer: q})
			}
		}
		must(t, w.Run(w.stream, someOp, p))
	}
	for r, w := range all {
		w.wait(t)
		for q := range n {
			want := make([]byte, 4*count(q, r))
			hostreduce.Fill(want, datatype.Int32, uint64(r), q)
			if got := w.read(t, out[r].Add(int64(4*q*room)), int64(len(want))); q != r && !bytes.Equal(got, want) {
				t.Fatalf("rank %d has wrong data of rank %d", r, q)
			}
		}
	}
}

// A phase of more messages than one launch has runs in several.
func TestManyMessages(t *testing.T) {
	const n, messages = 3, 200
	all := ranks(t, n, newMemNet(10), nil)
	var out [n]device.Ptr
	for r, w := range all {
		in := w.memory(t, n*messages)
		out[r] = w.memory(t, n*messages)
		b := make([]byte, n*messages)
		for i := range b {
			b[i] = byte(i*3 + r)
		}
		w.fill(t, in, b)
		p := &wire.Phase{}
		for q := range n {
			for i := 0; q != r && i < messages; i++ {
				p.Sends = append(p.Sends, wire.Part{Peer: q, Ptr: in.Add(int64(q*messages + i)), Bytes: 1})
				p.Recvs = append(p.Recvs, wire.Part{Peer: q, Ptr: out[r].Add(int64(q*messages + i)), Bytes: 1})
			}
		}
		must(t, w.Run(w.stream, someOp, p))
	}
	for r, w := range all {
		w.wait(t)
		got := w.read(t, out[r], n*messages)
		for q := range n {
			for i := 0; q != r && i < messages; i++ {
				if got[q*messages+i] != byte((r*messages+i)*3+q) {
					t.Fatalf("rank %d: message %d of rank %d is wrong", r, i, q)
				}
			}
		}
	}
}
