package goccl_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/conformance"
)

// exchanges are rounds of all-to-all-v between n ranks, drawn from a seed, so every rank knows what all do: pairs that exchange nothing, negative counts,
// gaps of any size between the parts.
type exchanges struct {
	n      int
	types  []datatype.Type // by round
	counts [][][]int64     // by round, from, to
	displs [2][][][]int64  // of what is received, of what is sent; by round, rank, peer
	length [2]int64        // the longest buffer, in bytes
}

func drawExchanges(n, rounds int, most int64, seed uint64) *exchanges {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := &exchanges{n: n}
	matrix := func(f func(i, j int) int64) [][]int64 {
		m := make([][]int64, n)
		for i := range m {
			for j := range n {
				m[i] = append(m[i], f(i, j))
			}
		}
		return m
	}
	for i := range rounds {
		t := []datatype.Type{datatype.Uint8, datatype.Float64, datatype.Bfloat16, datatype.Float32}[rng.IntN(4)]
		x.types = append(x.types, t)
		x.counts = append(x.counts, matrix(func(int, int) int64 {
			return []int64{0, 0, -5, rng.Int64N(20), rng.Int64N(most), rng.Int64N(most) &^ 7}[rng.IntN(6)]
		}))
		for side := range 2 {
			m := matrix(func(int, int) int64 { return 0 })
			for r := range n {
				at := rng.Int64N(3)
				for _, p := range rng.Perm(n) {
					m[r][p] = at
					at += max(0, x.count(i, side, r, p)) + []int64{0, 0, rng.Int64N(9), 8}[rng.IntN(4)]
				}
				x.length[side] = max(x.length[side], (at*t.Size()+15)&^15)
			}
			x.displs[side] = append(x.displs[side], m)
		}
	}
	return x
}

// count is what rank r sends to p (side 1) or receives from p (side 0).
func (x *exchanges) count(round, side, r, p int) int64 {
	if side == 1 {
		return x.counts[round][r][p]
	}
	return x.counts[round][p][r]
}

func exchangeByte(r int, i int64) byte { return byte(int64(r)*37 + i*11 + i>>8) }

// want is rank r's receive buffer after a round; what is nobody's is 0xa5.
func (x *exchanges) want(round, r int) []byte {
	out, size := bytes.Repeat([]byte{0xa5}, int(x.length[0])), x.types[round].Size()
	for p := range x.n {
		from, to := x.displs[1][round][p][r]*size, x.displs[0][round][r][p]*size
		for i := range max(0, x.counts[round][p][r]) * size {
			out[to+i] = exchangeByte(p, from+i)
		}
	}
	return out
}

// exchangeRank is one rank's part, and its memory.
type exchangeRank struct {
	x              *exchanges
	c              *goccl.Comm
	s              device.Stream
	in, out        device.Allocation // out: a buffer for each round, and one more
	tables, counts device.Allocation // the arrays of every round; those that the operation reads
	other          device.Allocation // of operations in between
}

func newExchangeRank(x *exchanges, c *goccl.Comm) (e *exchangeRank, err error) {
	e = &exchangeRank{x: x, c: c}
	rounds, arrays := int64(len(x.types)), int64(4*8*x.n)
	for _, a := range []struct {
		to    *device.Allocation
		bytes int64
	}{{&e.in, x.length[1]}, {&e.out, (rounds + 1) * x.length[0]}, {&e.tables, rounds * arrays}, {&e.counts, arrays}, {&e.other, 4096}} {
		if *a.to, err = c.Device().Alloc(max(1, a.bytes)); err != nil {
			return e, err
		}
	}
	in := make([]byte, x.length[1])
	for i := range in {
		in[i] = exchangeByte(c.Rank(), int64(i))
	}
	var tables []byte
	for round := range int(rounds) {
		for _, a := range e.arrays(round) {
			for _, v := range a {
				tables = binary.NativeEndian.AppendUint64(tables, uint64(v))
			}
		}
	}
	if e.s, err = c.Device().NewStream(); err != nil {
		return e, err
	}
	return e, errors.Join(c.Device().CopyIn(e.in.Ptr(), in), c.Device().CopyIn(e.tables.Ptr(), tables),
		c.Device().CopyIn(e.out.Ptr(), bytes.Repeat([]byte{0xa5}, int((rounds+1)*x.length[0]))))
}

// arrays are the counts and displacements of a round, in the order of DeviceCounts.
func (e *exchangeRank) arrays(round int) [4][]int64 {
	r, x := e.c.Rank(), e.x
	var sends, receives []int64
	for p := range x.n {
		sends, receives = append(sends, x.count(round, 1, r, p)), append(receives, x.count(round, 0, r, p))
	}
	return [4][]int64{sends, x.displs[1][round][r], receives, x.displs[0][round][r]}
}

func (e *exchangeRank) deviceCounts() goccl.DeviceCounts {
	at := func(i int64) device.Ptr { return e.counts.Ptr().Add(i * 8 * int64(e.x.n)) }
	return goccl.DeviceCounts{SendCounts: at(0), SendDispls: at(1), RecvCounts: at(2), RecvDispls: at(3)}
}

func (e *exchangeRank) recv(i int) device.Ptr { return e.out.Ptr().Add(int64(i) * e.x.length[0]) }

// produce has the stream make the counts of a round; the host does not wait.
func (e *exchangeRank) produce(round int) error {
	n := int64(4 * 8 * e.x.n)
	return e.s.Copy(e.counts.Ptr(), e.tables.Ptr().Add(int64(round)*n), n)
}

// eager enqueues all rounds at once: the counts, the exchange, and now and then the same kind of exchange with the host's counts, or other work.
func (e *exchangeRank) eager() error {
	x := e.x
	for i, t := range x.types {
		if i%3 == 2 {
			a := e.arrays(i)
			for _, v := range [][]int64{a[0], a[2]} {
				for p := range v {
					v[p] = max(0, v[p])
				}
			}
			if err := e.c.AllToAllV(e.in.Ptr(), a[0], a[1], e.recv(i), a[2], a[3], t, e.s); err != nil {
				return err
			}
			continue
		}
		if err := e.produce(i); err != nil {
			return err
		}
		if i%3 == 0 {
			if err := e.c.AllToAllVDevice(e.in.Ptr(), e.recv(i), e.deviceCounts(), t, e.s); err != nil {
				return err
			}
			continue
		}
		n, r, p := e.c.WorldSize(), e.c.Rank(), e.other.Ptr()
		if err := e.c.Submit( // a group
			algorithm.Request{Collective: algorithm.Recv, Recv: p, Count: 77, Type: datatype.Int8, Peer: (r + n - 1) % n, Stream: e.s},
			algorithm.Request{Collective: algorithm.AllReduce, Send: p.Add(256), Recv: p.Add(256), Count: 50, Type: datatype.Float32, Stream: e.s},
			algorithm.Request{Collective: algorithm.AllToAllVDevice, Send: e.in.Ptr(), Recv: e.recv(i), Type: t, DeviceCounts: e.deviceCounts(), Stream: e.s},
			algorithm.Request{Collective: algorithm.Send, Send: p.Add(512), Count: 77, Type: datatype.Int8, Peer: (r + 1) % n, Stream: e.s}); err != nil {
			return err
		}
	}
	return nil
}

// replayed captures one exchange and replays it for every round, the counts changing on the stream in between.
func (e *exchangeRank) replayed() (err error) {
	last, s := e.recv(len(e.x.types)), e.s.(*cuda.Stream)
	x, err := capture(s, cuda.CaptureThreadLocal, func() error {
		return e.c.AllToAllVDevice(e.in.Ptr(), last, e.deviceCounts(), e.x.types[0], s)
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.wait(), x.Close()) }()
	for i := range e.x.types {
		if err := errors.Join(s.Memset(last, 0xa5, e.x.length[0]), e.produce(i), x.Launch(s), s.Copy(e.recv(i), last, e.x.length[0])); err != nil {
			return err
		}
	}
	return nil
}

func (e *exchangeRank) wait() error {
	ctx, stop := context.WithTimeout(context.Background(), conformance.Timeout)
	defer stop()
	return e.c.Synchronize(ctx, e.s)
}

func (e *exchangeRank) check() error {
	if err := e.wait(); err != nil {
		return err
	}
	for i := range e.x.types {
		got, want := make([]byte, e.x.length[0]), e.x.want(i, e.c.Rank())
		if err := e.c.Device().CopyOut(got, e.recv(i)); err != nil {
			return err
		}
		for k := range got {
			if got[k] != want[k] {
				return fmt.Errorf("rank %d of %d, round %d of %v, counts %v: byte %d is %#x, want %#x", e.c.Rank(), e.x.n, i, e.x.types[i], e.arrays(i), k, got[k], want[k])
			}
		}
	}
	return nil
}

func (e *exchangeRank) close() error {
	var errs []error
	if e.s != nil {
		errs = append(errs, e.s.Close())
	}
	for _, m := range []device.Allocation{e.in, e.out, e.tables, e.counts, e.other} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

// exchangeAll runs f on all ranks at once; memory is made before, as nobody may allocate while a kernel waits for its rank.
func exchangeAll(t *testing.T, comms []*goccl.Comm, x *exchanges, seed uint64, f func(e *exchangeRank) error) {
	t.Helper()
	ranks := make([]*exchangeRank, len(comms))
	for r, c := range comms {
		var err error
		ranks[r], err = newExchangeRank(x, c)
		defer func() {
			if err := ranks[r].close(); err != nil {
				t.Error(err)
			}
		}()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := each(len(comms), func(r int) error { return errors.Join(f(ranks[r]), ranks[r].check()) }); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

// Counts that the stream makes, among all-to-all-v with the host's counts and groups of other work, none of it waited for.
func TestHostDeviceCounts(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		comms := newComms(t, n, openHost)
		for range 4 {
			seed := rand.Uint64()
			x := drawExchanges(n, 9, []int64{40, 3000, 60_000}[seed%3], seed)
			exchangeAll(t, comms, x, seed, (*exchangeRank).eager)
		}
	}
}

func TestGPUDeviceCounts(t *testing.T) {
	n, open := cudaRanks(t)
	comms := newComms(t, n, open)
	for _, most := range []int64{40, 3000, 60_000, 600_000} {
		seed := rand.Uint64()
		exchangeAll(t, comms, drawExchanges(n, 30, most, seed), seed, (*exchangeRank).eager)
	}
}

// A graph reads its counts anew each time.
func TestGPUDeviceCountsInGraph(t *testing.T) {
	comms := twoGPUs(t)
	for _, most := range []int64{40, 60_000} {
		seed := rand.Uint64()
		x := drawExchanges(len(comms), 50, most, seed)
		for i := range x.types { // the graph's
			x.types[i] = datatype.Uint8
		}
		exchangeAll(t, comms, x, seed, (*exchangeRank).replayed)
	}
}

// uneven makes rank 0 send rank 1 one element more than that expects.
func uneven(comms []*goccl.Comm, op string, t *testing.T) error {
	var memory []device.Ptr
	for _, c := range comms {
		memory = append(memory, scratch(t, c))
	}
	return each(len(comms), func(r int) error {
		c, n := comms[r], int64(len(comms))
		var list []byte
		for i := range 4 {
			for p := range n {
				v := p * 1000 // displacements
				if i%2 == 0 {
					v = 900
				}
				if i == 0 && r == 0 && p == 1 {
					v++
				}
				list = binary.NativeEndian.AppendUint64(list, uint64(v))
			}
		}
		m := memory[r]
		if err := c.Device().CopyIn(m, list); err != nil {
			return err
		}
		s, err := c.Device().NewStream()
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		d := goccl.DeviceCounts{SendCounts: m, SendDispls: m.Add(8 * n), RecvCounts: m.Add(16 * n), RecvDispls: m.Add(24 * n)}
		if err := c.AllToAllVDevice(m.Add(64<<10), m.Add(512<<10), d, datatype.Int8, s); err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(context.Background(), soon)
		defer stop()
		err = c.Synchronize(ctx, s)
		for end := time.Now().Add(soon); err == nil && r < 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
			err = c.AsyncError() // a GPU's kernel ends before the host has seen what it reports
		}
		if r > 1 {
			return nil // may or may not have been done by then
		}
		return blames(err, goccl.ErrMismatch, op, 1-r)
	})
}

// Both ranks of a pair whose counts differ learn of it and of each other, also with nothing lost in the rings.
func TestDeviceCountsThatDiffer(t *testing.T) {
	onKinds(t, 3, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		if n < 2 {
			t.Skip("one rank")
		}
		if err := uneven(commsWith(t, n, open, nil), "all_to_all_v_device", t); err != nil {
			t.Error(err)
		}
	})
}

// Checked mode compares what is known at the call: the operation and the type.
func TestDeviceCountsChecked(t *testing.T) {
	comms := commsWith(t, 2, openHost, func(_ int, cfg *goccl.Config) { cfg.Check = true })
	var memory [2]device.Ptr
	for r := range memory {
		memory[r] = scratch(t, comms[r])
	}
	counts := func(m device.Ptr) goccl.DeviceCounts {
		return goccl.DeviceCounts{SendCounts: m, SendDispls: m.Add(64), RecvCounts: m.Add(128), RecvDispls: m.Add(192)}
	}
	if err := each(2, func(r int) error {
		m := memory[r]
		var err error
		if r == 0 {
			err = comms[r].AllToAllVDevice(m.Add(4096), m.Add(8192), counts(m), datatype.Int8, nil)
		} else {
			err = comms[r].AllToAllV(m, []int64{0, 0}, []int64{0, 0}, m, []int64{0, 0}, []int64{0, 0}, datatype.Int8, nil)
		}
		if !strings.Contains(fmt.Sprint(err), "all_to_all_v_device of int8") {
			return fmt.Errorf("rank %d: %v", r, err)
		}
		return blames(err, goccl.ErrMismatch, []string{"all_to_all_v_device", "all_to_all_v"}[r], 1-r)
	}); err != nil {
		t.Error(err)
	}
	if err := conformance.Run(comms, conformance.Case{Collective: algorithm.AllToAllVDevice, Type: datatype.Int8, Count: 1000}); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
}

// What is wrong with the arrays' addresses is said at the call, with what they hold when the operation runs.
func TestDeviceCountsArguments(t *testing.T) {
	c := newComms(t, 1, openHost)[0]
	m := scratch(t, c)
	good := goccl.DeviceCounts{SendCounts: m, SendDispls: m.Add(8), RecvCounts: m.Add(16), RecvDispls: m.Add(24)}
	for name, spoil := range map[string]func(d *goccl.DeviceCounts){
		"SendCounts": func(d *goccl.DeviceCounts) { d.SendCounts = 0 },
		"RecvDispls": func(d *goccl.DeviceCounts) { d.RecvDispls += 4 },
	} {
		d := good
		spoil(&d)
		if err := c.AllToAllVDevice(m, m, d, datatype.Int8, nil); !errors.Is(err, goccl.ErrInvalidArgument) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.AllToAllVDevice(m.Add(64), m.Add(128), good, datatype.Int8, nil); err != nil { // nothing at all
		t.Error(err)
	}
	absurd := binary.NativeEndian.AppendUint64(nil, 1<<60)
	if err := errors.Join(c.Device().CopyIn(m, absurd), c.Device().CopyIn(m.Add(16), absurd)); err != nil {
		t.Fatal(err)
	}
	if err := c.AllToAllVDevice(m.Add(64), m.Add(128), good, datatype.Int8, nil); !errors.Is(err, goccl.ErrInvalidArgument) || !strings.Contains(err.Error(), "SendCounts[0]") {
		t.Errorf("an absurd count: %v", err)
	}
}

// A rank that does not call is named at the deadline; the others' counts do not matter.
func TestDeviceCountsWithoutAPeer(t *testing.T) {
	onKinds(t, 2, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		if n < 2 {
			t.Skip("one rank")
		}
		comms := commsWith(t, n, open, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = 300 * time.Millisecond })
		var all sync.WaitGroup
		for r := range n - 1 {
			m := scratch(t, comms[r]) // zeros
			all.Go(func() {
				s, err := comms[r].Device().NewStream()
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = s.Close() }()
				if err := comms[r].AllToAllVDevice(m, m, goccl.DeviceCounts{SendCounts: m, SendDispls: m, RecvCounts: m, RecvDispls: m}, datatype.Int8, s); err != nil {
					t.Error(err)
					return
				}
				ctx, stop := context.WithTimeout(context.Background(), soon)
				defer stop()
				err = comms[r].Synchronize(ctx, s)
				for end := time.Now().Add(soon); err == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
					err = comms[r].AsyncError()
				}
				if !errors.Is(err, goccl.ErrTimeout) && !errors.Is(err, goccl.ErrAborted) {
					t.Errorf("rank %d: %v", r, err)
				}
			})
		}
		all.Wait()
	})
}
