package nvlink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/bootstrap"
)

// gpuEngines returns the engines of ranks of this process, one per GPU.
func gpuEngines(t *testing.T) []*Engine {
	t.Helper()
	if notes != nil {
		t.Skip("the mock driver's kernels do nothing")
	}
	if err := cuda.Available(); err != nil {
		t.Skip("no GPU: ", err)
	}
	n, err := cuda.Count()
	must(t, err)
	if n < 2 {
		t.Skip("fewer than two GPUs")
	}
	boots, devs := bootstrap.NewLocalGroup(n), make([]device.Device, n)
	for r := range n {
		devs[r], err = cuda.Open(r)
		must(t, err)
		t.Cleanup(func() { _ = devs[r].Close() })
	}
	engines := make([]*Engine, n)
	t.Cleanup(func() {
		for r, e := range engines {
			if e != nil {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}
			_ = boots[r].Close()
		}
	})
	must(t, eachRank(n, func(r int) (err error) {
		engines[r], err = New(context.Background(), Config{Job: collective.Job{Bootstrap: boots[r], Device: devs[r],
			OpTimeout: 20 * time.Second}})
		return err
	}))
	return engines
}

// eachRank runs f for n ranks at once.
func eachRank(n int, f func(r int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for r := range n {
		all.Go(func() { errs[r] = f(r) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// age sets all counters of an idle engine to first, as if all packets were long over: fresh memory holds flags of 0.
// All ranks must be idle, and all must be aged before any continues.
func (e *Engine) age(s *cuda.Stream, first uint32) error {
	n := e.size
	if err := e.needAll(); err != nil {
		return err
	}
	messages, streams := device.Ptr(e.p2p.window[e.rank]), device.Ptr(e.stream.window[e.rank])
	for at, bytes := range map[device.Ptr]int64{
		e.arena.Ptr[e.rank]:               e.layout().arenaBytes(),
		device.Ptr(e.wide[ll][e.rank]):    e.layout().bytes(piece(ll)),
		device.Ptr(e.wide[ll128][e.rank]): e.layout().bytes(piece(ll128)),
		messages:                          e.layout().bytes(pieceMessages),
		streams:                           e.layout().bytes(pieceStreams),
	} {
		if err := s.Memset(at, 0, bytes); err != nil {
			return err
		}
	}
	if err := s.Synchronize(context.Background()); err != nil {
		return err
	}
	flags := streams.Add(streamBytes(n))
	// The ring's counters have 64 bits: sent, received, reduced, flags, and credits.
	for _, words := range []struct {
		at    device.Ptr
		bytes int64
		lines []int
	}{{e.launcher.State.Ptr().Add(stateRing), ringChannels * epochStride, []int{0, 8, 16}},
		{flags, ringFlagBytes(n), []int{0, 64}}} {
		b := make([]byte, words.bytes)
		for line := 0; line < len(b); line += ringLine {
			for _, word := range words.lines {
				binary.LittleEndian.PutUint64(b[line+word:], uint64(first))
			}
		}
		if err := e.dev.CopyIn(words.at, b); err != nil {
			return err
		}
	}
	for _, words := range []struct { // one at the start of every line of 128 bytes
		at    device.Ptr
		bytes int64
	}{
		// epochs, counters of messages and of streams
		{e.launcher.State.Ptr(), stateScratch},
		{messages.Add(p2pBytes(n) - int64(n)*p2pChannels*128), int64(n) * p2pChannels * 128}, // credits
		// arrived pieces, and credits
		{flags.Add(-int64(n) * streamChannels * 2 * 128), int64(n) * streamChannels * 2 * 128},
	} {
		b := make([]byte, words.bytes)
		for at := 0; at < len(b); at += 128 {
			binary.LittleEndian.PutUint32(b[at:], first)
		}
		if err := e.dev.CopyIn(words.at, b); err != nil {
			return err
		}
	}
	return nil
}

// number is element k of the data that rank r sends in step i: a small integer, so that sums are exact, even in half
// precision.
func number(r, i int, k int64) int64 { return (k + int64(3*r+7*i)) % 101 }

// appendFloat appends a whole number below 2048 as an element of t, float32 or float16.
func appendFloat(b []byte, t datatype.Type, v int64) []byte {
	bits := math.Float32bits(float32(v))
	switch {
	case t == datatype.Float32:
		return binary.LittleEndian.AppendUint32(b, bits)
	case v == 0:
		return append(b, 0, 0)
	}
	return binary.LittleEndian.AppendUint16(b, uint16(bits>>13-(127-15)<<10))
}

// floats returns n elements of the data that rank r sends in step i.
func floats(t datatype.Type, r, i int, n int64) []byte {
	b := make([]byte, 0, n*t.Size())
	for k := range n {
		b = appendFloat(b, t, number(r, i, k))
	}
	return b
}

func sumOf(t datatype.Type, ranks, i int, n int64) []byte {
	b := make([]byte, 0, n*t.Size())
	for k := range n {
		var sum int64
		for r := range ranks {
			sum += number(r, i, k)
		}
		b = appendFloat(b, t, sum)
	}
	return b
}

func TestFloats(t *testing.T) {
	for v, want := range map[int64]uint16{0: 0, 1: 0x3c00, 2: 0x4000, 3: 0x4200, 101: 0x5650, 1616: 0x6650, 2047: 0x67ff} {
		if got := binary.LittleEndian.Uint16(appendFloat(nil, datatype.Float16, v)); got != want {
			t.Errorf("%d is %#x as a float16, want %#x", v, got, want)
		}
	}
}

// Counters wrap past 2³² during work, for every protocol, without effect.
func TestGPUEpochsWrap(t *testing.T) {
	const before = 40 // steps until the wrap, where a step counts one
	engines := gpuEngines(t)
	n := len(engines)
	some := func(i int) int64 { return []int64{16, 1000, 70_000, 2}[i%4] }
	reduces := func(what string, steps int, count func(i int) int64) wrapCase {
		return wrapCase{what, collective.AllReduce, datatype.Float32, steps, count}
	}
	gathers := func(what string) wrapCase {
		return wrapCase{what, collective.AllGather, datatype.Float32, 3 * before, some}
	}
	sends := func(what string, steps int, count func(i int) int64) wrapCase {
		return wrapCase{what, collective.Send, datatype.Float32, steps, count}
	}
	const piece = p2pSpreadBytes / 4
	cases := []wrapCase{
		reduces("one_shot_ll", 3*before, some), reduces("one_shot_ll128", 3*before, some),
		reduces("two_shot_ll", 3*before, some),
		reduces("two_shot_ll128", 3*before, some), reduces("ring", 3*before, func(i int) int64 { return 8 * some(i) }),
		{"ring", collective.AllReduce, datatype.Float16, 3 * before, func(i int) int64 { return 8 * some(i) }},
		gathers("one_shot_ll"), gathers("one_shot_ll128"), gathers("ring"),
		sends("messages of a piece", 3*before, func(int) int64 { return piece }),
		sends("messages of five pieces", 3*before, func(int) int64 { return 5*piece - 3 }),
		// the last piece before it finds memory that nobody has written
		sends("messages that grow at the wrap", 3*before, func(i int) int64 {
			if i < before-1 {
				return 2
			}
			return piece
		}),
		sends("streams", before, func(int) int64 { return streamFrom/4 + 5000 }),
		sends("streams of any alignment", before, func(int) int64 { return streamFrom/4 + 4999 }),
	}
	streams, buffers := make([]*cuda.Stream, n), make([]device.Ptr, n)
	for r, e := range engines {
		streams[r], buffers[r] = newStream(t, e), memory(t, e, 4*streamFrom)
	}
	for _, c := range cases {
		if ok := t.Run(fmt.Sprintf("%v %s %v", c.what, c.name, c.typ), func(t *testing.T) {
			for _, e := range engines {
				if c.what != collective.Send {
					must(t, e.Force(c.what.String()+":"+c.name))
				}
			}
			must(t, eachRank(n, func(r int) error { return engines[r].age(streams[r], math.MaxUint32-before+1) }))
			must(t, eachRank(n, func(r int) error { return c.run(engines[r], streams[r], buffers[r]) }))
		}); !ok {
			return // the engines are inconsistent now
		}
	}
}

// wrapCase is steps of one operation; count is the number of elements in a step.
type wrapCase struct {
	name  string
	what  collective.Collective
	typ   datatype.Type
	steps int
	count func(i int) int64
}

func (c *wrapCase) run(e *Engine, s *cuda.Stream, mem device.Ptr) error {
	n, out := e.size, mem.Add(2*streamFrom)
	for i := range c.steps {
		count := c.count(i)
		req := collective.Request{Collective: c.what, Send: mem, Recv: out, Count: count, Type: c.typ, Op: datatype.Sum,
			Stream: s}
		reqs := []collective.Request{req}
		var want []byte
		switch c.what {
		case collective.AllReduce:
			want = sumOf(c.typ, n, i, count)
		case collective.AllGather:
			for r := range n {
				want = append(want, floats(c.typ, r, i, count)...)
			}
		case collective.Send:
			from := (e.rank + n - 1) % n
			want = floats(c.typ, from, i, count)
			reqs = append(reqs, req)
			reqs[0].Peer, reqs[1].Collective, reqs[1].Peer = (e.rank+1)%n, collective.Recv, from
		}
		if err := e.dev.CopyIn(mem, floats(c.typ, e.rank, i, count)); err != nil {
			return err
		}
		if err := e.dev.CopyIn(out, bytes.Repeat([]byte{0xa5}, len(want))); err != nil {
			return err
		}
		if err := e.Enqueue(uint64(i+1), reqs); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		err := errors.Join(s.Synchronize(ctx), e.Err())
		cancel()
		if err != nil {
			return fmt.Errorf("rank %d, step %d: %w", e.rank, i, err)
		}
		got := make([]byte, len(want))
		if err := e.dev.CopyOut(got, out); err != nil {
			return err
		}
		for k := range got {
			if got[k] != want[k] {
				return fmt.Errorf("rank %d, step %d of %d elements: byte %d is %#x, want %#x", e.rank, i, count, k, got[k], want[k])
			}
		}
	}
	return nil
}
