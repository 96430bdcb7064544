package contract_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// exactTypes are the types whose sums round.
var exactTypes = []datatype.Type{datatype.Float16, datatype.Bfloat16, datatype.Float32, datatype.Float64,
	datatype.Float8E4M3, datatype.Float8E5M2}

// exactCase is a random reduction of elements whose sums round.
func exactCase(rng *rand.Rand, n int) conformance.Case {
	colls := []collective.Collective{collective.AllReduce, collective.Reduce, collective.ReduceScatter}
	ops := []datatype.Op{datatype.Sum, datatype.Sum, datatype.Prod, datatype.Avg, datatype.Max, datatype.Min,
		datatype.PreMulSum}
	sizes := []int64{1, 7, 64, 1000, 4099, 50_001}
	return conformance.Case{Collective: colls[rng.IntN(len(colls))], Type: exactTypes[rng.IntN(len(exactTypes))],
		Op: ops[rng.IntN(len(ops))], Count: 1 + rng.Int64N(sizes[rng.IntN(len(sizes))]), Root: rng.IntN(n),
		InPlace: rng.IntN(2) == 0, Shift: rng.Int64N(4), Seed: rng.Uint64(), Exact: true}
}

// TestExact asks for the reference's bits of random reductions, by every algorithm of one host and with ranks on
// several hosts, contiguous or not.
func TestExact(t *testing.T) {
	t.Parallel()
	cases := 12
	switch {
	case testing.Short():
		cases = 4
	case setting.Lenient().Full != "":
		cases = 400
	}
	for _, place := range []struct {
		hosts      []int
		algorithms string
	}{
		{[]int{0, 0, 0, 0, 0}, ""}, {[]int{0, 0, 0}, "one_shot"}, {[]int{0, 0, 0}, "two_shot"}, {[]int{0, 0, 0}, "direct"},
		{[]int{0, 0, 1, 1}, ""}, {[]int{0, 1, 0, 1, 1, 0}, ""}, {[]int{0, 1, 1, 1}, ""}, {[]int{0, 1, 2}, ""},
		{[]int{0, 0, 1, 1, 2}, ""},
	} {
		t.Run(fmt.Sprint(place), func(t *testing.T) {
			t.Parallel()
			exactly(t, cases, place.hosts, place.algorithms, commtest.Host)
		})
	}
}

// exactly compares random reductions, with the ranks on the given hosts, with the reference.
func exactly(t *testing.T, cases int, hosts []int, algorithm string, open func(r int) (device.Device, error)) {
	t.Helper()
	comms := commtest.NewOn(t, hosts, open, func(r int, cfg *goccl.Config) {
		if r == 0 { // it holds for all
			cfg.Exact = collective.ExactReference
		}
		if algorithm != "" {
			cfg.Algorithms = "all_reduce:" + algorithm + ",reduce:" + algorithm
		}
	})
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for range cases {
		if err := conformance.Run(comms, exactCase(rng, len(comms))); err != nil {
			t.Fatalf("hosts %v, seed %d: %v", hosts, seed, err)
		}
	}
}

// TestGPUExact is TestExact on GPUs, also with large messages, on one host and on two.
func TestGPUExact(t *testing.T) {
	n, open := commtest.GPUs(t)
	one, two := make([]int, n), make([]int, n)
	for r := range two {
		two[r] = r * 2 / n
	}
	for _, hosts := range [][]int{one, two} {
		exactly(t, 150, hosts, "", open)
	}
	comms := commtest.NewOn(t, one, open, func(_ int, cfg *goccl.Config) { cfg.Exact = collective.ExactReference })
	for _, c := range []collective.Collective{collective.AllReduce, collective.ReduceScatter} {
		for _, d := range []datatype.Type{datatype.Bfloat16, datatype.Float32} {
			for _, count := range []int64{1 << 20, 9<<20 + 5} {
				if err := conformance.Run(comms, conformance.Case{Collective: c, Type: d, Op: datatype.Sum, Count: count,
					Seed: rand.Uint64(), Exact: true}); err != nil {
					t.Errorf("%v of %d %v: %v", c, count, d, err)
				}
			}
		}
	}
}

// TestExactRest reduces a message whose last piece has fewer elements than there are ranks: some reduce nothing.
func TestExactRest(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("TestExact runs the same code: this one differs in where shares end")
	}
	for _, hosts := range [][]int{{0, 0, 1}, {0, 1, 0}} {
		comms := commtest.NewOn(t, hosts, commtest.Host, func(_ int, cfg *goccl.Config) {
			cfg.Exact = collective.ExactReference
		})
		for _, rest := range []int64{1, 2, 4} { // behind three shares of 512 KiB
			c := conformance.Case{Collective: collective.AllReduce, Type: datatype.Float32, Op: datatype.Sum,
				Count: 3<<17 + rest, Seed: uint64(rest), Exact: true, InPlace: rest == 2}
			if err := conformance.Run(comms, c); err != nil {
				t.Errorf("hosts %v: %v", hosts, err)
			}
		}
	}
}

// TestInexactAcrossHosts shows that TestExact can fail: without the promise, sums of a host's ranks come first.
func TestInexactAcrossHosts(t *testing.T) {
	t.Parallel()
	comms := commtest.NewOn(t, []int{0, 1, 0, 1}, commtest.Host, nil)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		if conformance.Run(comms, exactCase(rng, len(comms))) != nil {
			return
		}
	}
	t.Error("the reference's bits were never missed")
}

// TestBatchInvariant compares the bits of elements in messages of other sizes, at other positions, in place and not,
// with ranks on one host and on several: the default of hosts.
func TestBatchInvariant(t *testing.T) {
	t.Parallel()
	for _, hosts := range [][]int{{0, 0, 0}, {0, 1, 0, 1, 0}} {
		comms := commtest.NewOn(t, hosts, commtest.Host, func(_ int, cfg *goccl.Config) {
			cfg.Exact = collective.ExactBatch
		})
		const most = 40_000
		whole, err := sumBits(comms, 0, most)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			from := rand.Int64N(most)
			to := from + 1 + rand.Int64N(most-from)
			if part, err := sumBits(comms, from, to); err != nil || !slices.Equal(part, whole[from:to]) {
				t.Fatalf("hosts %v: elements %d to %d have other bits than in a message of %d: %v", hosts, from, to, most, err)
			}
		}
	}
}

// TestFusedBatchInvariant compares the bits of rows in fused all-reduces of other numbers of rows, at other places, by
// every algorithm: the default.
func TestFusedBatchInvariant(t *testing.T) {
	for _, most := range []int{2, 4} {
		t.Run(fmt.Sprint(most), func(t *testing.T) { commtest.OnKinds(t, most, fusedBatches) })
	}
}

func fusedBatches(t *testing.T, n int, open func(r int) (device.Device, error)) {
	f := newFused(t, n, open)
	for _, typ := range []datatype.Type{datatype.Bfloat16, datatype.Float16, datatype.Float32} {
		whole := f.draw(typ)
		want := fusedRows(t, f.comms, f.fusions, f.streams, &whole, "")
		for _, algorithm := range []string{"", "one_shot", "two_shot", "apart"} {
			for _, tokens := range []int64{1, 2, 1 + rand.Int64N(37)} {
				part := whole
				part.tokens, part.skip = tokens, rand.Int64N(38-tokens)
				for i, got := range fusedRows(t, f.comms, f.fusions, f.streams, &part, algorithm) {
					if at := part.skip + int64(i); got != want[at] {
						t.Errorf("%d ranks, %+v, %q: row %d has other bits than in %d rows", n, part, algorithm, at, whole.tokens)
					}
				}
			}
		}
	}
	f.close(t)
}

// fusedRanks are ranks with workspaces for fused all-reduces.
type fusedRanks struct {
	comms   []*goccl.Comm
	fusions []*goccl.Fusion
	streams []device.Stream
}

func newFused(t *testing.T, n int, open func(r int) (device.Device, error)) *fusedRanks {
	t.Helper()
	f := &fusedRanks{commtest.New(t, n, open, nil), make([]*goccl.Fusion, n), make([]device.Stream, n)}
	if err := commtest.Each(n, func(r int) (err error) {
		if f.streams[r], err = f.comms[r].Device().NewStream(); err == nil {
			f.fusions[r], err = f.comms[r].NewFusion(context.Background(), goccl.FusionConfig{ScratchBytes: 1 << 20})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fusedRanks) close(t *testing.T) {
	t.Helper()
	for _, s := range f.streams {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// draw draws 37 rows with every output.
func (f *fusedRanks) draw(typ datatype.Type) fusedCase {
	return fusedCase{tokens: 37, hidden: 8 * (1 + rand.Int64N(40)), seed: rand.Uint64(), typ: typ, residual: true,
		weight: true, sum: true, quantisation: 2, quantType: datatype.Float8E4M3}
}

// fusedRows runs a fused all-reduce and returns the bytes of rank 0's outputs, row by row.
func fusedRows(t *testing.T, comms []*goccl.Comm, fusions []*goccl.Fusion, streams []device.Stream, c *fusedCase,
	algorithm string) []string {
	t.Helper()
	n, rows := len(comms), make([]string, c.tokens)
	buffers := make([]*fusedBuffers, n)
	if err := commtest.Each(n, func(r int) (err error) {
		buffers[r], err = c.allocate(comms[r].Device(), r)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := commtest.Each(n, func(r int) error {
		b := buffers[r]
		b.request.Stream, b.request.Algorithm = streams[r], algorithm
		if err := fusions[r].AllReduce(b.request); err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(context.Background(), commtest.Soon)
		defer stop()
		return comms[r].Synchronize(ctx, streams[r])
	}); err != nil {
		t.Fatalf("%+v, %q: %v", c, algorithm, err)
	}
	b, size := buffers[0], buffers[0].request.RowBytes()
	for i := range rows {
		at := int64(i)
		for _, p := range []device.Ptr{b.request.Sum, b.request.ResidualOut, b.request.Norm} {
			rows[i] += string(b.bytes(p.Add(at*size), size))
		}
		rows[i] += string(b.bytes(b.request.Quant.Add(at*c.hidden), c.hidden))
		rows[i] += string(b.bytes(b.request.ScaleOut.Add(4*at), 4))
	}
	for _, b := range buffers {
		if err := b.memory.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// sumBits all-reduces elements from to to of a fixed sequence and returns the bits of rank 0's result.
func sumBits(comms []*goccl.Comm, from, to int64) ([]uint32, error) {
	out := make([][]uint32, len(comms))
	err := commtest.Each(len(comms), func(r int) (err error) {
		c := comms[r]
		rng := rand.New(rand.NewPCG(uint64(r), 7))
		mem, err := c.Device().Alloc(4 * (to - from))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, mem.Close()) }()
		data := device.Bytes(mem.Ptr(), 4*(to-from))
		for i := range to {
			if x := float32(rng.NormFloat64()); i >= from {
				binary.LittleEndian.PutUint32(data[4*(i-from):], math.Float32bits(x))
			}
		}
		if err := c.AllReduce(mem.Ptr(), mem.Ptr(), to-from, datatype.Float32, datatype.Sum, nil); err != nil {
			return err
		}
		for i := range to - from {
			out[r] = append(out[r], binary.LittleEndian.Uint32(data[4*i:]))
		}
		return nil
	})
	return out[0], err
}

// TestExactOfACall: a pre-multiplied sum across hosts cannot ask for placement by itself, and says so. Other sums can.
func TestExactOfACall(t *testing.T) {
	t.Parallel()
	comms := commtest.NewOn(t, []int{0, 0, 1}, commtest.Host, nil)
	for _, op := range []datatype.Op{datatype.PreMulSum, datatype.Sum} {
		err := everyRank(comms, func(c *goccl.Comm) error {
			p := commtest.Scratch(t, c)
			return c.Submit(collective.Request{Collective: collective.AllReduce, Send: p, Recv: p, Count: 10,
				Type: datatype.Float32, Op: op, Exact: collective.ExactPlacement})
		})
		if errors.Is(err, goccl.ErrUnsupported) != (op == datatype.PreMulSum) || err != nil && op == datatype.Sum {
			t.Errorf("%v: %v", op, err)
		}
	}
}
