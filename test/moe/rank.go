package moe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/moe"
	"github.com/goccl/goccl/test/commtest"
)

// Rank is one rank with its memory.
type Rank struct {
	Combined []byte // what the latest combine has returned, token by token
	C        *goccl.Comm
	M        *goccl.MoE
	Stream   device.Stream
	Graph    bool // operations are captured and replayed
	Masked   bool // the communicator may have failed
	own      []device.Allocation
}

// enqueue calls f; with Graph it captures what f enqueues and launches it three times.
func (r *Rank) enqueue(f func() error) error {
	s, ok := r.Stream.(*cuda.Stream)
	if !r.Graph || !ok {
		return f()
	}
	x, err := commtest.Capture(s, cuda.CaptureThreadLocal, f)
	if err != nil {
		return err
	}
	for range 3 {
		err = errors.Join(err, x.Launch(s))
	}
	return errors.Join(err, r.sync(), x.Close())
}

// NewRank makes the buffer and a stream. It is collective.
func NewRank(c *goccl.Comm, size moe.Size) (*Rank, error) {
	m, err := c.NewMoE(context.Background(), size)
	if err != nil {
		return nil, err
	}
	s, err := c.Device().NewStream()
	return &Rank{C: c, M: m, Stream: s}, err
}

// Close frees the memory.
func (r *Rank) Close() error {
	return errors.Join(r.Free(), r.Stream.Close(), r.M.Close())
}

// Free frees the memory of cases.
func (r *Rank) Free() error {
	var errs []error
	for _, a := range r.own {
		errs = append(errs, a.Close())
	}
	r.own = nil
	return errors.Join(errs...)
}

// memory is n bytes of the device, filled with content, behind which it is 0xa5.
func (r *Rank) memory(n int, content []byte) device.Ptr {
	a, err := r.C.Device().Alloc(int64(max(n, 1)))
	if err != nil {
		panic(err)
	}
	r.own = append(r.own, a)
	full := append(append([]byte(nil), content...), bytes.Repeat([]byte{0xa5}, n-len(content))...)
	if err := r.C.Device().CopyIn(a.Ptr(), full); err != nil {
		panic(err)
	}
	return a.Ptr()
}

func (r *Rank) read(p device.Ptr, n int) []byte {
	b := make([]byte, n)
	if err := r.C.Device().CopyOut(b, p); err != nil {
		panic(err)
	}
	return b
}

func (r *Rank) sync() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if r.Masked {
		return errors.Join(r.Stream.Synchronize(ctx), r.M.Err())
	}
	return errors.Join(r.Stream.Synchronize(ctx), r.C.AsyncError())
}

// renew replaces a stream that has failed.
func (r *Rank) renew() (err error) {
	if err = r.Stream.Close(); err == nil {
		r.Stream, err = r.C.Device().NewStream()
	}
	return err
}

func put[T any](list []T) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, list)
	if err != nil {
		panic(err)
	}
	return b
}

// Run runs a case and compares what comes with the reference. exact: RecvRows is what comes, else the worst case.
func (r *Rank) Run(c *Case, exact bool) error {
	defer func() { _ = r.Free() }()
	if err := r.run(c, exact); err != nil {
		return fmt.Errorf("%s: rank %d: %w", c.Name, r.C.Rank(), err)
	}
	return nil
}

func (r *Rank) run(c *Case, exact bool) error {
	me, s := r.C.Rank(), c.Shape
	n, k := c.Tokens[me], s.TopK
	bytesOf, err := r.M.HandleBytes(s)
	if err != nil {
		return err
	}
	h := moe.Handle{Shape: s, Memory: r.memory(int(bytesOf), nil), Tokens: n}
	notify := moe.NotifyArgs{Handle: h, Stream: r.Stream}
	if k > 0 {
		notify.TopKIndex = r.memory(n*k*8, put(c.given(me)))
	} else {
		in := make([]byte, n*c.Ranks)
		for i, x := range c.given(me) {
			in[i] = byte(x)
		}
		notify.InRank = r.memory(len(in), in)
	}
	got := c.got(me)
	d := moe.DispatchArgs{Handle: h, X: r.memory(n*s.Hidden*2, put(c.X[me])), Type: datatype.Bfloat16,
		Quantize: c.Quantize, RecvRows: len(got), Stream: r.Stream}
	if !exact {
		d.RecvRows = 0
		for _, t := range c.Tokens {
			d.RecvRows += t
		}
	}
	groups := 1
	if s.Layout == moe.Experts {
		groups = s.Experts / c.Ranks
		d.RecvRows = 0
		for _, t := range c.Tokens {
			d.RecvRows += t
		}
	}
	elem := 2
	if c.Quantize {
		elem = 1
	}
	if c.Quantize && s.Layout == moe.ZeroCopy { // which takes rows of float8
		var x, scales []byte
		for t := range n {
			data, of := c.row(me, t)
			x, scales = append(x, data...), append(scales, of...)
		}
		d.Type, d.Quantize = datatype.Float8E4M3, false
		d.X, d.Scales = r.memory(len(x), x), r.memory(len(scales), scales)
	}
	rows := groups * d.RecvRows
	d.RecvX, d.RecvScales = r.memory(rows*s.Hidden*elem, nil), r.memory(rows*(s.Hidden+127)/128*4, nil)
	d.RecvSource = r.memory(rows*4, nil)
	if s.Layout == moe.ZeroCopy { // other ranks may write there already, so it is not poisoned
		d.RecvX = r.M.Offsets(s).Received
	}
	if s.Layout != moe.Experts && k > 0 {
		d.Lists, d.Index, d.Weights = true, notify.TopKIndex, r.memory(n*k*4, put(c.Weights[me]))
		d.RecvIndex, d.RecvWeights = r.memory(rows*k*8, nil), r.memory(rows*k*4, nil)
	}
	if err := r.enqueue(func() error {
		if err := r.M.Notify(notify); err != nil {
			return err
		}
		return r.M.Dispatch(d)
	}); err != nil {
		return err
	}
	if err := r.sync(); err != nil {
		return err
	}
	if err := r.checkHandle(c, h); err != nil {
		return err
	}
	if err := r.checkRows(c, &d); err != nil {
		return err
	}
	return r.combine(c, &d, notify.TopKIndex)
}

func (r *Rank) checkHandle(c *Case, h moe.Handle) error {
	me, o := r.C.Rank(), r.M.Offsets(c.Shape)
	var want, prefix []int32
	total := int32(0)
	for s := range c.Ranks {
		from := int32(0)
		for _, x := range c.got(me) {
			if x.s == s {
				from++
			}
		}
		want = append(want, from)
		total += from
		for p := range c.Ranks {
			sent := int32(0)
			for _, x := range c.got(p) {
				if x.s <= s {
					sent++
				}
			}
			prefix = append(prefix, sent)
		}
	}
	for _, x := range []struct {
		name string
		at   int64
		want []int32
	}{{"counts", o.Counts, want}, {"total", o.Total, []int32{total}}, {"prefix", o.Prefix, prefix}} {
		if b := r.read(h.Memory.Add(x.at), len(x.want)*4); !bytes.Equal(b, put(x.want)) {
			return fmt.Errorf("%s of the handle are % x, not % x", x.name, b, put(x.want))
		}
	}
	if c.Shape.TopK == 0 {
		return nil
	}
	for e := range c.Shape.Experts / c.Ranks {
		n := len(c.gotBy(me, e))
		b := r.read(h.Memory.Add(o.Totals+int64(e)*4), 4)
		if got := binary.LittleEndian.Uint32(b); int(got) != n {
			return fmt.Errorf("expert %d gets %d rows, not %d", e, got, n)
		}
	}
	return nil
}

// checkRows compares what a dispatch has brought, and that nothing is written elsewhere.
func (r *Rank) checkRows(c *Case, d *moe.DispatchArgs) error {
	me := r.C.Rank()
	groups := [][]copyOf{c.got(me)}
	if c.Shape.Layout == moe.Experts {
		groups = nil
		for e := range c.Shape.Experts / c.Ranks {
			groups = append(groups, c.gotBy(me, e))
		}
	}
	for g, list := range groups {
		for i := range d.RecvRows {
			at := g*d.RecvRows + i
			data, scales, source := bytes.Repeat([]byte{0xa5}, rowBytes(d)), bytes.Repeat([]byte{0xa5}, scaleBytes(d)),
				uint32(0xa5a5a5a5)
			if i < len(list) {
				data, scales = c.row(list[i].s, list[i].t)
				source = uint32(list[i].t)
			}
			if i >= len(list) && c.Shape.Layout == moe.ZeroCopy {
				data = r.read(d.RecvX.Add(int64(at*len(data))), len(data))
			}
			if b := r.read(d.RecvX.Add(int64(at*len(data))), len(data)); !bytes.Equal(b, data) {
				return fmt.Errorf("row %d of group %d: %.40x, not %.40x", i, g, b, data)
			}
			if b := r.read(d.RecvScales.Add(int64(at*len(scales))), len(scales)); !bytes.Equal(b, scales) {
				return fmt.Errorf("scales of row %d of group %d: %x, not %x", i, g, b, scales)
			}
			if b := binary.LittleEndian.Uint32(r.read(d.RecvSource.Add(int64(at*4)), 4)); b != source {
				return fmt.Errorf("source of row %d of group %d: %d, not %d", i, g, b, source)
			}
			if err := r.checkLists(c, d, at, i, list); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Rank) checkLists(c *Case, d *moe.DispatchArgs, at, i int, list []copyOf) error {
	if !d.Lists {
		return nil
	}
	k, local := c.Shape.TopK, c.Shape.Experts/c.Ranks
	index, weights := make([]int64, k), make([]float32, k)
	for j := range index {
		index[j] = -1
		if i < len(list) {
			if e := c.list(list[i].s, list[i].t)[j]; e >= 0 && int(e)/local == r.C.Rank() {
				index[j], weights[j] = e%int64(local), c.weights(r.C.Rank(), list[i].s, list[i].t)[j]
			}
		}
	}
	if b := r.read(d.RecvIndex.Add(int64(at*k*8)), k*8); !bytes.Equal(b, put(index)) {
		return fmt.Errorf("list of row %d: % x, not % x", i, b, put(index))
	}
	if b := r.read(d.RecvWeights.Add(int64(at*k*4)), k*4); !bytes.Equal(b, put(weights)) {
		return fmt.Errorf("weights of row %d: % x, not % x", i, b, put(weights))
	}
	return nil
}

// combine returns results and compares the sums.
func (r *Rank) combine(c *Case, d *moe.DispatchArgs, index device.Ptr) error {
	me, s := r.C.Rank(), c.Shape
	n, k := c.Tokens[me], s.TopK
	a := moe.CombineArgs{Handle: d.Handle, Rows: d.RecvRows, Stream: r.Stream}
	var x []byte
	add := func(list []copyOf) {
		for i := range d.RecvRows {
			for j := range s.Hidden {
				v := uint16(0x7fc0) // NaN: rows that did not come count nothing
				if i < len(list) {
					v = c.result(me, list[i], j)
				}
				x = binary.LittleEndian.AppendUint16(x, v)
			}
		}
	}
	if s.Layout != moe.Experts {
		add(c.got(me))
	} else {
		for e := range s.Experts / c.Ranks {
			add(c.gotBy(me, e))
		}
		a.Weights, a.Index = r.memory(n*k*4, put(c.Weights[me])), index
	}
	a.X, a.Out = r.memory(len(x), x), r.memory(n*s.Hidden*2, nil)
	if s.Layout == moe.ZeroCopy {
		a.X = r.M.Offsets(s).Results
		if err := r.C.Device().CopyIn(a.X, x); err != nil {
			return err
		}
	}
	if d.Lists && s.Layout == moe.Rows {
		var w []float32
		for _, from := range c.got(me) {
			w = append(w, c.weights(me, from.s, from.t)...)
		}
		if d.RecvRows > 0 { // an empty tensor has no address
			a.Weights = r.memory(d.RecvRows*k*4, put(w))
		}
		if n > 0 {
			a.OutWeights = r.memory(n*k*4, nil)
		}
	}
	bias := make([]uint16, n*s.Hidden)
	for i := range bias {
		bias[i] = c.value(99, copyOf{me, c.number(me, i/s.Hidden)*s.Hidden + i%s.Hidden, 3}, 5)
	}
	a.Bias[c.Seed%2] = r.memory(len(bias)*2, put(bias))
	if err := r.enqueue(func() error { return r.M.Combine(a) }); err != nil {
		return err
	}
	if err := r.sync(); err != nil {
		return err
	}
	out := r.read(a.Out, n*s.Hidden*2)
	r.Combined = out
	for t := range n {
		for j := range s.Hidden {
			i := t*s.Hidden + j
			var b [2]uint16
			b[c.Seed%2] = bias[i]
			if got, want := binary.LittleEndian.Uint16(out[2*i:]), c.combined(me, t, j, b); got != want {
				return fmt.Errorf("combined token %d, element %d: %#x (%g), not %#x (%g)", t, j, got, wide(got), want,
					wide(want))
			}
		}
		if a.OutWeights == 0 {
			continue
		}
		sums := make([]float32, k)
		for _, p := range c.on(me, t) {
			for j, w := range c.weights(p, me, t) {
				sums[j] += w
			}
		}
		for j, w := range sums {
			if b := binary.LittleEndian.Uint32(r.read(a.OutWeights.Add(int64(t*k+j)*4), 4)); b != math.Float32bits(w) {
				return fmt.Errorf("weight %d of token %d: %#x, not %g", j, t, b, w)
			}
		}
	}
	return nil
}
