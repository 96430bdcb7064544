package contract_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// exchanges are rounds of all-to-all-v between n ranks, generated from a seed, so every rank knows the counts of all:
// pairs without data, negative counts, gaps of any size between the parts.
type exchanges struct {
	n      int
	types  []datatype.Type // by round
	counts [][][]int64     // by round, from, to
	displs [2][][][]int64  // of received parts, of sent parts; by round, rank, peer
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

// want returns rank r's expected receive buffer after a round; bytes outside of all parts are 0xa5.
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
	}{{&e.in, x.length[1]}, {&e.out, (rounds + 1) * x.length[0]}, {&e.tables, rounds * arrays}, {&e.counts, arrays},
		{&e.other, 4096}} {
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

// arrays returns the counts and displacements of a round, in the order of DeviceCounts.
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

// produce lets the stream write the counts of a round; the host does not wait.
func (e *exchangeRank) produce(round int) error {
	n := int64(4 * 8 * e.x.n)
	return e.s.Copy(e.counts.Ptr(), e.tables.Ptr().Add(int64(round)*n), n)
}

// eager enqueues all rounds at once: the counts, the exchange, and now and then an exchange with host counts, or other
// work.
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
			collective.Request{Collective: collective.Recv, Recv: p, Count: 77, Type: datatype.Int8, Peer: (r + n - 1) % n,
				Stream: e.s},
			collective.Request{Collective: collective.AllReduce, Send: p.Add(256), Recv: p.Add(256), Count: 50,
				Type: datatype.Float32, Stream: e.s},
			collective.Request{Collective: collective.AllToAllVDevice, Send: e.in.Ptr(), Recv: e.recv(i), Type: t,
				DeviceCounts: e.deviceCounts(), Stream: e.s},
			collective.Request{Collective: collective.Send, Send: p.Add(512), Count: 77, Type: datatype.Int8, Peer: (r + 1) % n,
				Stream: e.s}); err != nil {
			return err
		}
	}
	return nil
}

// replayed captures one exchange and replays it for every round; the stream changes the counts in between.
func (e *exchangeRank) replayed() (err error) {
	last, s := e.recv(len(e.x.types)), e.s.(*cuda.Stream)
	x, err := commtest.Capture(s, cuda.CaptureThreadLocal, func() error {
		return e.c.AllToAllVDevice(e.in.Ptr(), last, e.deviceCounts(), e.x.types[0], s)
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.wait(), x.Close()) }()
	for i := range e.x.types {
		if err := errors.Join(s.Memset(last, 0xa5, e.x.length[0]), e.produce(i), x.Launch(s),
			s.Copy(e.recv(i), last, e.x.length[0])); err != nil {
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
				return fmt.Errorf("rank %d of %d, round %d of %v, counts %v: byte %d is %#x, want %#x", e.c.Rank(), e.x.n, i,
					e.x.types[i], e.arrays(i), k, got[k], want[k])
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

// exchangeAll runs f on all ranks at once. It allocates memory before, because no allocation is allowed while a kernel
// waits for its rank.
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
	if err := commtest.Each(len(comms),
		func(r int) error { return errors.Join(f(ranks[r]), ranks[r].check()) }); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}
