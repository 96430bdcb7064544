package perf

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/hostreduce"
)

// buffers are one rank's memory for all sizes and libraries of a measurement.
type buffers struct {
	dev        device.Device
	send, recv device.Allocation
	counts     device.Allocation // for kinds whose counts the device reads; nil otherwise
	chunk      []byte            // scratch for CopyIn and CopyOut
}

// newBuffers allocates memory for outputs and inputs of up to size bytes, at offsets of up to shift bytes in the
// allocation.
func newBuffers(dev device.Device, size, shift int64) (*buffers, error) {
	b := &buffers{dev: dev, chunk: make([]byte, min(4<<20, size+guard+1))}
	var err error
	if b.send, err = dev.Alloc(size + shift + guard); err != nil {
		return nil, fmt.Errorf("perf: send buffer of %d bytes on %v: %w", size, dev.ID(), err)
	}
	if b.recv, err = dev.Alloc(size + shift + guard); err != nil {
		_ = b.send.Close()
		return nil, fmt.Errorf("perf: receive buffer of %d bytes on %v: %w", size, dev.ID(), err)
	}
	return b, nil
}

func (b *buffers) Close() error { return device.CloseAll(b.send, b.recv, b.counts) }

// deviceCounts copies the counts of a request to device memory. The request keeps its host lists, for libraries that
// read those.
func (b *buffers) deviceCounts(r *collective.Request) error {
	n := int64(len(r.SendCounts))
	if b.counts == nil {
		var err error
		if b.counts, err = b.dev.Alloc(4 * 8 * n); err != nil {
			return fmt.Errorf("perf: counts of %d ranks on %v: %w", n, b.dev.ID(), err)
		}
	}
	var list []byte
	for _, v := range [][]int64{r.SendCounts, r.SendDispls, r.RecvCounts, r.RecvDispls} {
		for _, x := range v {
			list = binary.NativeEndian.AppendUint64(list, uint64(x))
		}
	}
	p := b.counts.Ptr()
	r.DeviceCounts = collective.DeviceCounts{SendCounts: p, SendDispls: p.Add(8 * n), RecvCounts: p.Add(16 * n),
		RecvDispls: p.Add(24 * n)}
	return b.dev.CopyIn(p, list)
}

// call is one operation of one rank, with its addresses.
type call struct {
	g          geometry
	rank       int
	inPlace    bool
	send, recv device.Ptr
	sends      int64      // elements
	base       device.Ptr // start of the receive buffer, or of the only buffer of an in-place call
	end        device.Ptr // start of the guard zone
	requests   []collective.Request
}

// call places the operation in the buffers, shift bytes from their start.
func (b *buffers) call(g geometry, rank int, inPlace bool, shift int64, s device.Stream) (*call, error) {
	ts := g.typ.Size()
	c := &call{g: g, rank: rank, inPlace: inPlace, send: b.send.Ptr().Add(shift), recv: b.recv.Ptr().Add(shift)}
	c.base = c.recv
	sends, receives := g.lengths(rank)
	c.sends, c.end = sends, c.recv.Add(receives*ts)
	if inPlace {
		send, recv, length := g.inPlace(rank)
		c.send, c.recv, c.end = c.base.Add(send*ts), c.base.Add(recv*ts), c.base.Add(length*ts)
	}
	r := collective.Request{Send: c.send, Recv: c.recv, Op: g.op, Stream: s}
	if g.op == datatype.PreMulSum {
		encode(r.Scalar[:], g.typ, scalarOf)
	}
	c.requests = g.requests(rank, r)
	if g.kind.Collective == collective.AllToAllVDevice {
		return c, b.deviceCounts(&c.requests[0])
	}
	return c, nil
}

// fill writes the rank's input and poisons all other memory: outputs, and bytes that the operation must not write.
func (b *buffers) fill(c *call, in *inputs) error {
	ts := c.g.typ.Size()
	n := int64(c.end-c.base) + guard
	if err := b.repeat(c.base, bytes.Repeat([]byte{poison}, int(min(n, int64(len(b.chunk))))), n); err != nil {
		return err
	}
	return b.repeat(c.send, in.ranks[c.rank], c.sends*ts)
}

func (b *buffers) repeat(p device.Ptr, block []byte, n int64) error {
	for n > 0 {
		k := min(n, int64(len(block)))
		if err := b.dev.CopyIn(p, block[:k]); err != nil {
			return err
		}
		n, p = n-k, p.Add(k)
	}
	return nil
}

// verify counts wrong elements in the output, wrong elements in an input that must not change, and changed bytes behind
// the output.
func (b *buffers) verify(ctx context.Context, c *call, in *inputs) (wrong, stray int64, err error) {
	segments := c.g.expected(c.rank)
	for _, s := range segments {
		w, err := b.compare(ctx, c.recv, s, in)
		if err != nil {
			return 0, 0, err
		}
		wrong += w
	}
	if !c.inPlace {
		w, err := b.compare(ctx, c.send, segment{count: c.sends, from: c.rank}, in)
		if err != nil {
			return 0, 0, err
		}
		wrong += w
	}
	zone := b.chunk[:min(guard, len(b.chunk))]
	if err := b.dev.CopyOut(zone, c.end); err != nil {
		return 0, 0, err
	}
	stray = int64(len(zone) - bytes.Count(zone, []byte{poison}))
	return wrong, stray, nil
}

func (b *buffers) compare(ctx context.Context, base device.Ptr, s segment, in *inputs) (wrong int64, err error) {
	ts := in.typ.Size()
	step := int64(len(b.chunk)) / ts
	for first := int64(0); first < s.count; first += step {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		k := min(step, s.count-first)
		got := b.chunk[:k*ts]
		if err := b.dev.CopyOut(got, base.Add((s.at+first)*ts)); err != nil {
			return 0, err
		}
		wrong += in.compare(got, s, first)
	}
	return wrong, nil
}

// period is the length in elements of the random block that a rank's input repeats. It is prime, so that two offsets
// that an algorithm computes from counts, ranks and chunk sizes do not see the same values by accident.
const period = 65521

// guard is the number of bytes behind an output that are poisoned and must not change; poison is their value.
const (
	guard  = 512
	poison = 0xA5
)

// scalarOf is the factor of mulsum.
const scalarOf = 2

// inputs are the blocks of all ranks for one check, and the block of their reduction.
type inputs struct {
	typ     datatype.Type
	op      datatype.Op
	n       int
	block   int64 // elements in a block: period, or fewer when the buffers are shorter
	ranks   [][]byte
	reduced []byte
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// palette lists the values that rank's input may take. The reduction of one value of each rank is exact in t, in any
// order.
func palette(t datatype.Type, op datatype.Op, n, rank int) []float64 {
	limit := exact(t)
	// An average of integers rounds negative sums in different ways, so its values stay positive.
	signed := !t.Unsigned() && (op != datatype.Avg || isFloat(t))
	var top int64
	switch op {
	case datatype.Prod:
		// Powers of two and signs: the narrowest type holds eight doublings.
		v := []float64{1}
		if signed {
			v = append(v, -1)
		}
		if rank < 6 && t != datatype.Float8E4M3 || rank < 4 {
			v = append(v, 2)
		}
		return v
	case datatype.Max, datatype.Min:
		top = min(limit, 250)
	case datatype.PreMulSum:
		top = min(limit/int64(n)/scalarOf, 250)
		if top == 0 && int64(rank) < limit/scalarOf {
			top = 1
		}
	default:
		top = min(limit/int64(n), 250)
		if top == 0 && int64(rank) < limit {
			top = 1
		}
	}
	v := []float64{0}
	for i := int64(1); i <= top; i++ {
		v = append(v, float64(i))
		if signed {
			v = append(v, -float64(i))
		}
	}
	return v
}

// newInputs draws the blocks of n ranks, and reduces them if reduces is true. elements is the length of the longest
// buffer.
func newInputs(t datatype.Type, op datatype.Op, n int, elements int64, reduces bool, seed uint64) (*inputs, error) {
	in := &inputs{typ: t, op: op, n: n, block: min(period, max(elements, 1)), ranks: make([][]byte, n)}
	ts := t.Size()
	var values []float64
	var encoded []byte
	for r := range in.ranks {
		// Palettes of different ranks are equal or have different lengths.
		if p := palette(t, op, n, r); len(p) != len(values) {
			values, encoded = p, make([]byte, int64(len(p))*ts)
			for i, v := range values {
				encode(encoded[int64(i)*ts:], t, v)
			}
		}
		in.ranks[r] = make([]byte, in.block*ts)
		key := mix(seed ^ mix(uint64(r)+1))
		for i := range in.block {
			pick := int64(mix(key+uint64(i)) % uint64(len(values)))
			copy(in.ranks[r][i*ts:(i+1)*ts], encoded[pick*ts:])
		}
	}
	if !reduces {
		return in, nil
	}
	in.reduced = make([]byte, in.block*ts)
	return in, hostreduce.Reduce(in.reduced, in.ranks, t, op, hostreduce.ScalarOf(t, scalarOf), n)
}

// compare counts the elements of got that differ from the segment; got starts at element first of the segment. A
// library may divide before or after the sum of an average, which rounds the term of each rank once.
func (in *inputs) compare(got []byte, s segment, first int64) (wrong int64) {
	ts, how := in.typ.Size(), datatype.Max // which has one right result
	if in.op == datatype.Avg && in.reduced != nil {
		how = datatype.Avg
	}
	block := in.reduced
	if s.from >= 0 {
		block = in.ranks[s.from]
	}
	at := (s.src + first) % in.block
	for len(got) > 0 {
		want := block[at*ts:]
		k := min(len(want), len(got))
		n, _ := hostreduce.Check(got[:k], want[:k], in.typ, how, in.n)
		wrong += n
		got, at = got[k:], 0
	}
	return wrong
}

func isFloat(t datatype.Type) bool { return hostreduce.Unit(t) > 0 }

// encode writes v, rounded to nearest even for floating types, truncated for integers, as one element of t at the start
// of b.
func encode(b []byte, t datatype.Type, v float64) {
	s := hostreduce.ScalarOf(t, v)
	copy(b, s[:t.Size()])
}

// exact is the largest n, or 2³⁰, such that every integer in 0..n is an element of t.
func exact(t datatype.Type) int64 {
	switch {
	case isFloat(t):
		return int64(min(1/hostreduce.Unit(t), 1<<30))
	case t == datatype.Int8:
		return 127
	case t == datatype.Uint8:
		return 255
	}
	return 1 << 30
}
