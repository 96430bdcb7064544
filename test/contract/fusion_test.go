package contract_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/test/commtest"
)

// fusedCase is a fused all-reduce of random shape. All ranks draw the same one.
type fusedCase struct {
	skip, tokens, hidden          int64 // rows of the sequences that begin the buffers
	typ, quantType                datatype.Type
	quantisation                  uint8
	residual, weight, sum, divide bool
	inPlace                       bool
	seed                          uint64
	algorithm                     string
}

func drawFused(r *rand.Rand) fusedCase {
	c := fusedCase{tokens: r.Int64N(9), hidden: 8 * (1 + r.Int64N(40)), seed: r.Uint64(),
		typ:          []datatype.Type{datatype.Float16, datatype.Bfloat16, datatype.Float32}[r.IntN(3)],
		quantType:    []datatype.Type{datatype.Int8, datatype.Float8E4M3}[r.IntN(2)],
		quantisation: uint8(r.IntN(3)), residual: r.IntN(4) > 0, weight: r.IntN(4) > 0, sum: r.IntN(2) == 0,
		divide: r.IntN(3) == 0, inPlace: r.IntN(2) == 0,
		algorithm: []string{"", "one_shot", "two_shot", "apart"}[r.IntN(4)]}
	if r.IntN(12) == 0 {
		c.tokens, c.hidden = 2, 8*(500+r.Int64N(1549))
	}
	return c
}

// fusedBuffers are a rank's buffers, side by side.
type fusedBuffers struct {
	request goccl.FusedRequest
	memory  device.Allocation
	dev     device.Device
}

// bytes are n bytes at p.
func (b *fusedBuffers) bytes(p device.Ptr, n int64) []byte {
	out := make([]byte, n)
	if err := b.dev.CopyOut(out, p); err != nil {
		panic(err)
	}
	return out
}

func values(t datatype.Type, n int64, seed uint64) ([]float32, []byte) {
	r, v := rand.New(rand.NewPCG(seed, 7)), make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	b := make([]byte, n*t.Size())
	hostreduce.Encode(b, v, t)
	hostreduce.Decode(v, b, t)
	return v, b
}

// rows are the rows of the case in a sequence of its seed.
func (c *fusedCase) rows(sequence uint64) ([]float32, []byte) {
	v, b := values(c.typ, (c.skip+c.tokens)*c.hidden, c.seed+sequence)
	return v[c.skip*c.hidden:], b[c.skip*c.hidden*c.typ.Size():]
}

func (c *fusedCase) allocate(dev device.Device, rank int) (*fusedBuffers, error) {
	size := (c.tokens*c.hidden*4 + 4*c.hidden + 255) &^ 255
	m, err := dev.Alloc(8 * size)
	if err != nil {
		return nil, err
	}
	at := func(i int64) device.Ptr { return m.Ptr().Add(i * size) }
	_, input := c.rows(uint64(rank))
	_, residual := c.rows(1000)
	_, weight := values(c.typ, c.hidden, c.seed+2000)
	r := goccl.FusedRequest{Tokens: c.tokens, Hidden: c.hidden, Type: c.typ, Input: at(0), Norm: at(1), Epsilon: 1e-6,
		DividedResidual: c.divide, Algorithm: c.algorithm}
	err = dev.CopyIn(at(0), input)
	if c.residual {
		r.Residual, r.ResidualOut = at(2), at(3)
		if c.inPlace {
			r.ResidualOut = r.Residual
		}
		err = errors.Join(err, dev.CopyIn(at(2), residual))
	}
	if c.inPlace {
		r.Norm = r.Input
	}
	if c.weight {
		r.Weight = at(4)
		err = errors.Join(err, dev.CopyIn(at(4), weight))
	}
	if c.sum {
		r.Sum = at(5)
	}
	if c.quantisation != 0 {
		r.Quantisation, r.QuantType, r.Quant = goccl.NoQuantisation+1, c.quantType, at(6)
		r.Scale = at(7)
		err = errors.Join(err, dev.CopyIn(at(7), binary.NativeEndian.AppendUint32(nil, math.Float32bits(0.05))))
		if c.quantisation == 2 {
			r.Quantisation, r.Scale, r.ScaleOut = goccl.DynamicQuantisation, 0, at(7)
		}
	}
	return &fusedBuffers{r, m, dev}, err
}

// expect compares with the definition, in float64, within the rounding of the type.
func (c *fusedCase) expect(rank, n int, b *fusedBuffers) error {
	count := c.tokens * c.hidden
	sum := make([]float64, count)
	for r := range n {
		v, _ := c.rows(uint64(r))
		for i := range v {
			sum[i] += float64(v[i])
		}
	}
	unit := map[datatype.Type]float64{datatype.Float16: 0x1p-10, datatype.Bfloat16: 0x1p-7,
		datatype.Float32: 0x1p-21}[c.typ]
	from, to := b.request.Slice(rank, n)
	if !c.divide {
		from, to = 0, c.tokens
	}
	check := func(name string, p device.Ptr, want []float64, from, to int64) error {
		if p == 0 {
			return nil
		}
		got := make([]float32, count)
		hostreduce.Decode(got, b.bytes(p, count*c.typ.Size()), c.typ)
		for i := from * c.hidden; i < to*c.hidden; i++ {
			if d := math.Abs(float64(got[i]) - want[i]); !(d <= 4*unit*math.Max(1, math.Abs(want[i]))) {
				return fmt.Errorf("%s: element %d of row %d is %g: want %g", name, i%c.hidden, i/c.hidden, got[i], want[i])
			}
		}
		return nil
	}
	if err := check("sum", b.request.Sum, sum, from, to); err != nil {
		return err
	}
	if c.residual {
		v, _ := c.rows(1000)
		for i := range v {
			sum[i] += float64(v[i])
		}
		if err := check("residual", b.request.ResidualOut, sum, from, to); err != nil {
			return err
		}
	}
	weight, _ := values(c.typ, c.hidden, c.seed+2000)
	for row := range c.tokens {
		z, squares := sum[row*c.hidden:][:c.hidden], 0.0
		for _, v := range z {
			squares += v * v
		}
		for i := range z {
			z[i] /= math.Sqrt(squares/float64(c.hidden) + 1e-6)
			if c.weight {
				z[i] *= float64(weight[i])
			}
		}
	}
	if err := check("norm", b.request.Norm, sum, 0, c.tokens); err != nil {
		return err
	}
	return c.expectQuantised(b)
}

// expectQuantised compares the quantised output with the norm: half a step, or a relative error of 2⁻⁴ of e4m3.
func (c *fusedCase) expectQuantised(b *fusedBuffers) error {
	r := &b.request
	if c.quantisation == 0 {
		return nil
	}
	norm, quant := make([]float32, c.tokens*c.hidden), make([]float32, c.tokens*c.hidden)
	hostreduce.Decode(norm, b.bytes(r.Norm, int64(len(norm))*c.typ.Size()), c.typ)
	raw := b.bytes(r.Quant, int64(len(norm)))
	if c.quantType == datatype.Float8E4M3 {
		hostreduce.Decode(quant, raw, c.quantType)
	}
	most := map[datatype.Type]float64{datatype.Int8: 127, datatype.Float8E4M3: 448}[c.quantType]
	scale := 0.05
	for i, v := range norm {
		if row := int64(i) / c.hidden; c.quantisation == 2 && int64(i) == row*c.hidden {
			scale = float64(math.Float32frombits(binary.NativeEndian.Uint32(b.bytes(r.ScaleOut.Add(4*row), 4))))
			largest := 0.0
			for _, x := range norm[i:][:c.hidden] {
				largest = math.Max(largest, math.Abs(float64(x)))
			}
			if math.Abs(scale-largest/most) > 1e-6*scale {
				return fmt.Errorf("row %d has scale %g: its largest norm is %g", row, scale, largest)
			}
		}
		q := float64(quant[i])
		if c.quantType == datatype.Int8 {
			q = float64(int8(raw[i]))
		}
		want := math.Max(-most-1, math.Min(most, float64(v)/scale))
		if d := math.Abs(q - want); d > math.Max(0.51, math.Abs(want)/15) {
			return fmt.Errorf("quantised element %d is %g: the norm %g by %g is %g", i, q, v, scale, want)
		}
	}
	return nil
}

// outputs are the bytes that all ranks share.
func (c *fusedCase) outputs(b *fusedBuffers) string {
	r := &b.request
	out := string(b.bytes(r.Norm, c.tokens*r.RowBytes()))
	if c.quantisation != 0 {
		out += string(b.bytes(r.Quant, c.tokens*c.hidden))
	}
	if c.quantisation == 2 {
		out += string(b.bytes(r.ScaleOut, 4*c.tokens))
	}
	return out
}

// Random fused all-reduces have the results of their definition, the same bits on all ranks, and between other
// collectives.
func TestFusedAllReduce(t *testing.T) {
	for _, most := range []int{1, 2, 4, 6} {
		t.Run(fmt.Sprint(most), func(t *testing.T) { commtest.OnKinds(t, most, randomFused) })
	}
}

func randomFused(t *testing.T, n int, open func(r int) (device.Device, error)) {
	comms, fusions, streams := commtest.New(t, n, open, nil), make([]*goccl.Fusion, n), make([]device.Stream, n)
	if err := commtest.Each(n, func(r int) (err error) {
		if streams[r], err = comms[r].Device().NewStream(); err == nil {
			fusions[r], err = comms[r].NewFusion(context.Background(), goccl.FusionConfig{ScratchBytes: 64 << 10})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for round := range 6 {
		seed := rand.Uint64()
		c := drawFused(rand.New(rand.NewPCG(seed, 1)))
		if round == 0 { // this one needs packets
			c.algorithm, c.tokens = "one_shot", 2
		}
		// Nothing is allocated or freed while a rank's kernel may wait for another rank: the driver may wait for kernels.
		results, buffers := make([]string, n), make([]*fusedBuffers, n)
		if err := commtest.Each(n, func(r int) (err error) {
			buffers[r], err = c.allocate(comms[r].Device(), r)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := commtest.Each(n, func(r int) error {
			b := buffers[r]
			if r == n-1 && round == 0 { // the others' waits become long, where some packets are there
				time.Sleep(150 * time.Millisecond)
			}
			for i := range 2 { // the second one on the default stream, which ranks of one GPU share
				if b.request.Stream = streams[r]; i == 1 && b.dev.ID().Kind == device.Host {
					b.request.Stream = nil
				}
				if err := c.again(b, r); err != nil {
					return err
				}
				if err := errors.Join(fusions[r].AllReduce(b.request), comms[r].Barrier(streams[r])); err != nil {
					return err
				}
				ctx, stop := context.WithTimeout(context.Background(), commtest.Soon)
				err := comms[r].Synchronize(ctx, streams[r])
				stop()
				if err == nil {
					err = c.expect(r, n, b)
				}
				if err != nil {
					return err
				}
			}
			results[r] = c.outputs(b)
			return recordedFusion(comms[r])
		}); err != nil {
			t.Fatalf("%d ranks, seed %d, %+v: %v", n, seed, c, err)
		}
		for r := range n {
			if results[r] != results[0] {
				t.Errorf("%d ranks, %+v: rank %d has other bits than rank 0", n, c, r)
			}
			if err := buffers[r].memory.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, s := range streams {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// recordedFusion checks the record of the operation before the last one.
func recordedFusion(c *goccl.Comm) error {
	ops := c.Records().Operations
	if o := &ops[len(ops)-2]; o.Collective != "all_reduce_fusion" || o.Op != "sum" {
		return fmt.Errorf("recorded as %+v", *o)
	}
	return nil
}

// again restores the inputs that an operation in place has overwritten.
func (c *fusedCase) again(b *fusedBuffers, rank int) error {
	_, input := c.rows(uint64(rank))
	_, residual := c.rows(1000)
	err := b.dev.CopyIn(b.request.Input, input)
	if c.residual {
		err = errors.Join(err, b.dev.CopyIn(b.request.Residual, residual))
	}
	return err
}

func TestFusedArguments(t *testing.T) { commtest.OnKinds(t, 1, fusedArguments) }

func fusedArguments(t *testing.T, n int, open func(r int) (device.Device, error)) {
	c := commtest.New(t, n, open, nil)[0]
	f, err := c.NewFusion(context.Background(), goccl.FusionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	p := commtest.Scratch(t, c)
	good := goccl.FusedRequest{Tokens: 2, Hidden: 64, Type: datatype.Bfloat16, Input: p, Norm: p.Add(4096)}
	if err := f.AllReduce(good); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(r *goccl.FusedRequest){
		"hidden size of 60":  func(r *goccl.FusedRequest) { r.Hidden = 60 },
		"elements of double": func(r *goccl.FusedRequest) { r.Type = datatype.Float64 },
		"the input is NULL":  func(r *goccl.FusedRequest) { r.Input = 0 },
		"no output":          func(r *goccl.FusedRequest) { r.Norm = 0 },
		"multiple of 16":     func(r *goccl.FusedRequest) { r.Norm += 8 },
		"overlaps":           func(r *goccl.FusedRequest) { r.Norm = r.Input + 128 },
		"no algorithm":       func(r *goccl.FusedRequest) { r.Algorithm = "three_shot" },
		"quantised output":   func(r *goccl.FusedRequest) { r.Quantisation = goccl.StaticQuantisation },
	} {
		r := good
		spoil(&r)
		if err := f.AllReduce(r); !errors.Is(err, goccl.ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.AllReduce(good); !errors.Is(err, goccl.ErrInvalidUsage) {
		t.Errorf("after Close: %v", err)
	}
}

// A rank that does not call is named, under the operation's name, when the deadline has passed.
func TestFusedWithoutAPeer(t *testing.T) {
	comms := commtest.New(t, 2, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = 200 * time.Millisecond })
	fusions := make([]*goccl.Fusion, 2)
	if err := commtest.Each(2, func(r int) (err error) {
		fusions[r], err = comms[r].NewFusion(context.Background(), goccl.FusionConfig{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p := commtest.Scratch(t, comms[0])
	err := fusions[0].AllReduce(goccl.FusedRequest{Tokens: 2, Hidden: 64, Type: datatype.Bfloat16, Input: p, Norm: p})
	if err := commtest.Blames(err, goccl.ErrTimeout, "all_reduce_fusion", 1); err != nil {
		t.Error(err)
	}
}
