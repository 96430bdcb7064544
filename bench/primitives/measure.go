package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goccl/goccl/bench/internal/figure"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/primitive"
)

// The targets, for GPUs that NVSwitch connects (8 × H200).
const (
	targetSignal    = 0.75 // µs
	targetPut       = 370  // GB/s
	targetPush      = 320  // GB/s per GPU
	targetPortPut   = 385  // GB/s
	targetPort      = 6    // µs
	targetSetup     = 300  // ms
	portBytes       = 1 << 10
	packetBytes     = 8
	repeats         = 5 // of a latency; the median is reported
	transfers       = 8 // timed, per shape
	sampleBytes     = 1 << 20
	pairA, pairB    = 0, 1 // the pair for one-to-one figures
	microsPerSecond = 1e6
)

// setupFigures reports the times of the set-up, for the slowest rank.
func (r *rank) setupFigures(ctx context.Context, setup, joined, opened time.Duration) error {
	for _, f := range []struct {
		figure.Figure
		mine time.Duration
	}{
		{figure.Figure{Name: "mesh_setup", Unit: "ms", Target: figure.UpTo(targetSetup),
			Detail: "from the start of main to the first barrier over the channels, without making the GPU's context and " +
				"waiting for the slowest to do so"}, setup},
		{figure.Figure{Name: "bootstrap_join", Unit: "ms", Detail: "part of mesh_setup: from the start of main until the " +
			"ranks know each other"}, joined},
		{figure.Figure{Name: "device_open", Unit: "ms",
			Detail: "not in mesh_setup: the driver's start and the GPU's context"}, opened},
	} {
		all, err := r.All(ctx, f.mine.Seconds()*1e3)
		if err != nil {
			return err
		}
		f.Value = slices.Max(all)
		r.tell(f.Figure)
	}
	return nil
}

func (r *rank) tell(f figure.Figure) {
	if r.report != nil {
		r.report.Add(f)
	}
}

// measure measures all figures. size is the size of the large transfers; 0 is the device's default.
func (r *rank) measure(ctx context.Context, size int64) error {
	host := r.dev.ID().Kind == device.Host
	long, short := 10000, 2000
	if host {
		long, short = 200, 50 // its figures are of no use, and a busy processor takes long for each
	}
	if size == 0 {
		size = 1 << 30
		if host {
			size = 16 << 20
		}
	}
	k := r.kernel
	for _, l := range []struct {
		figure.Figure
		iterations int
		run        func(peer int, first bool, iterations int) (float64, error)
	}{
		{figure.Figure{Name: "memory_channel_signal", Target: figure.UpTo(targetSignal), Detail: "signal and wait"}, long,
			func(p int, first bool, n int) (float64, error) { return k.signal(p, first, n, false) }},
		{figure.Figure{Name: "memory_channel_relaxed_signal", Detail: "relaxedSignal and relaxedWait"}, long,
			func(p int, first bool, n int) (float64, error) { return k.signal(p, first, n, true) }},
		{figure.Figure{Name: "memory_channel_packet", Detail: fmt.Sprintf("%d bytes as LL16 packets", packetBytes)}, long,
			func(p int, first bool, n int) (float64, error) { return k.packet(p, first, packetBytes, n) }},
		{figure.Figure{Name: "port_channel_put_signal", Target: figure.UpTo(targetPort),
			Detail: fmt.Sprintf("putWithSignal of %d bytes, and wait", portBytes)}, short,
			func(p int, first bool, n int) (float64, error) { return k.port(p, first, portBytes, n) }},
	} {
		if err := r.latency(ctx, l.Figure, l.iterations, l.run); err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
	}
	return r.bandwidths(ctx, size)
}

// latency is half of a round trip between the pair: the median over repeats, after a warm-up.
func (r *rank) latency(ctx context.Context, f figure.Figure, iterations int,
	run func(peer int, first bool, iterations int) (float64, error)) error {
	if err := r.Meet(ctx); err != nil {
		return err
	}
	var times []float64
	if me := r.Rank(); me == pairA || me == pairB {
		for i := range repeats + 1 {
			t, err := run(pairA+pairB-me, me == pairA, iterations)
			if err != nil {
				return err
			}
			if i > 0 {
				times = append(times, t/float64(2*iterations)*microsPerSecond)
			}
		}
		slices.Sort(times)
	}
	if err := r.Meet(ctx); err != nil {
		return err
	}
	if r.report != nil {
		f.Unit, f.Value = "us", times[len(times)/2]
		f.Detail += fmt.Sprintf("; one way: half of a round trip, ranks %d and %d, median of %d × %d", pairA, pairB, repeats,
			iterations)
		r.tell(f)
	}
	return nil
}

// bandwidths measures the large transfers.
func (r *rank) bandwidths(ctx context.Context, size int64) error {
	source, target, err := r.mesh.large(ctx, size)
	if err != nil {
		return err
	}
	b := &transfer{rank: r, size: size, source: source, target: target}
	if err := r.kernel.uploadLarge(); err != nil {
		return err
	}
	if err := b.fill(); err != nil {
		return err
	}
	n, me := r.WorldSize(), r.Rank()
	k := r.kernel

	// 1. One rank puts to one peer.
	var best figure.Figure
	for _, bulk := range []bool{false, true} {
		shapes := shapesOf(k.putShapes(), bulk)
		if len(shapes) == 0 { // no bulk copies
			continue
		}
		f := figure.Figure{Name: "memory_channel_put_stores",
			Detail: fmt.Sprintf("put of %d bytes from rank %d to rank %d", size, pairA, pairB)}
		if bulk {
			f.Name = "memory_channel_put_bulk"
		}
		f, err := b.sweep(ctx, f, shapes, size, func(s shape) (float64, error) {
			if me != pairA {
				return 0, nil
			}
			return k.put(pairB, size, s, transfers)
		})
		if err != nil {
			return err
		}
		if err := b.arrived(ctx, func() []slice {
			if me != pairB {
				return nil
			}
			return []slice{{from: pairA, bytes: size}}
		}); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if f.Value > best.Value {
			best = f
		}
	}
	best.Name, best.Target = "memory_channel_put", figure.AtLeast(targetPut)
	best.Sweep = nil
	r.tell(best)

	// 2. Every rank puts to the next.
	f := figure.Figure{Name: "memory_channel_put_ring",
		Detail: fmt.Sprintf("put of %d bytes from every rank to the next at once, the slowest", size)}
	if _, err := b.sweep(ctx, f, k.putShapes(), size,
		func(s shape) (float64, error) { return k.put((me+1)%n, size, s, transfers) }); err != nil {
		return err
	}

	// 3. Every rank to all others.
	part := size / int64(n) &^ 15
	best = figure.Figure{}
	for _, bulk := range []bool{false, true} {
		shapes := shapesOf(k.pushShapes(), bulk)
		if len(shapes) == 0 {
			continue
		}
		f := figure.Figure{Name: "memory_channel_all_to_all_stores",
			Detail: fmt.Sprintf("%d bytes from every rank to each other at once, the slowest", part)}
		if bulk {
			f.Name = "memory_channel_all_to_all_bulk"
		}
		f, err := b.sweep(ctx, f, shapes, part*int64(n-1),
			func(s shape) (float64, error) { return k.pushAll(part, s, transfers) })
		if err != nil {
			return err
		}
		if err := b.arrived(ctx, func() (all []slice) {
			for p := range r.mesh.others() {
				all = append(all, slice{from: p, at: int64(p) * part, src: int64(me) * part, bytes: part})
			}
			return all
		}); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if f.Value > best.Value {
			best = f
		}
	}
	best.Name, best.Target = "memory_channel_all_to_all", figure.AtLeast(targetPush)
	best.Sweep = nil
	r.tell(best)

	// 4. The proxy puts to one peer.
	f = figure.Figure{Name: "port_channel_put", Target: figure.AtLeast(targetPortPut),
		Detail: fmt.Sprintf("%d puts of %d bytes and a flush, from rank %d to rank %d", transfers, size, pairA, pairB)}
	if _, err := b.sweep(ctx, f, []shape{{}}, size, func(shape) (float64, error) {
		if me != pairA {
			return 0, nil
		}
		return k.portPut(pairB, size, transfers)
	}); err != nil {
		return err
	}
	return b.arrived(ctx, func() []slice {
		if me != pairB {
			return nil
		}
		return []slice{{from: pairA, bytes: size}}
	})
}

func shapesOf(all []shape, bulk bool) []shape {
	return slices.DeleteFunc(slices.Clone(all), func(s shape) bool { return s.bulk() != bulk })
}

// transfer is the source and the target of the large transfers. A source repeats a block that differs between ranks.
type transfer struct {
	*rank
	size           int64
	source, target *primitive.RegisteredMemory
}

// block is the data that rank's source repeats. Its length is a prime number of bytes below 16 MiB, so that different
// slices of a source differ.
func block(rank int) []byte {
	b := make([]byte, 16777213)
	g := rand.NewChaCha8([32]byte{byte(rank + 1)})
	_, _ = g.Read(b) // never fails
	return b
}

func (b *transfer) fill() error {
	data := block(b.Rank())
	for at := int64(0); at < b.size; at += int64(len(data)) {
		if err := b.dev.CopyIn(b.source.Data().Add(at), data[:min(int64(len(data)), b.size-at)]); err != nil {
			return err
		}
	}
	return b.forget()
}

// forget overwrites the target with zeros.
func (b *transfer) forget() error {
	zero := make([]byte, min(b.size, 16<<20))
	for at := int64(0); at < b.size; at += int64(len(zero)) {
		if err := b.dev.CopyIn(b.target.Data().Add(at), zero[:min(int64(len(zero)), b.size-at)]); err != nil {
			return err
		}
	}
	return nil
}

// sweep runs every shape after a barrier and reports the best; bytes is the number of bytes that a rank sends in one
// transfer. The slowest participating rank determines the rate; a rank that does not participate returns 0 seconds.
// Every rank returns the figure.
func (b *transfer) sweep(ctx context.Context, f figure.Figure, shapes []shape, bytes int64,
	run func(shape) (float64, error)) (figure.Figure, error) {
	f.Unit = "GB/s"
	detail := f.Detail
	for _, s := range shapes {
		if err := b.Meet(ctx); err != nil {
			return f, err
		}
		t, err := run(s)
		if err != nil {
			return f, fmt.Errorf("%s: %w", f.Name, err)
		}
		all, err := b.All(ctx, t)
		if err != nil {
			return f, err
		}
		rate := float64(bytes) * transfers / slices.Max(all) / 1e9
		if math.IsInf(rate, 0) || math.IsNaN(rate) {
			return f, fmt.Errorf("%s: no time was measured", f.Name)
		}
		if s.blocks > 0 {
			f.Sweep = append(f.Sweep, figure.Point{Shape: s.String(), Value: rate})
		}
		if rate > f.Value {
			f.Value = rate
			if f.Detail = detail; s.blocks > 0 {
				f.Detail += "; " + s.String()
			}
		}
	}
	b.tell(f)
	return f, nil
}

// slice is the expected data of one rank: bytes at offset at of the target equal the sender's source from offset src
// on.
type slice struct {
	from           int
	at, src, bytes int64
}

// arrived checks the start, the middle and the end of each slice, then prepares the target for the next transfer.
func (b *transfer) arrived(ctx context.Context, slices func() []slice) error {
	if err := b.Meet(ctx); err != nil {
		return err
	}
	for _, s := range slices() {
		data := block(s.from)
		n := min(sampleBytes, s.bytes)
		for _, off := range []int64{0, (s.bytes - n) / 2, s.bytes - n} {
			got := make([]byte, n)
			if err := b.dev.CopyOut(got, b.target.Data().Add(s.at+off)); err != nil {
				return err
			}
			if !bytes.Equal(got, repeated(data, s.src+off, n)) {
				return fmt.Errorf("rank %d: wrong bytes from rank %d near offset %d", b.Rank(), s.from, s.at+off)
			}
		}
	}
	if err := b.forget(); err != nil {
		return err
	}
	return b.Meet(ctx)
}

// repeated returns bytes [at, at+n) of data repeated without end.
func repeated(data []byte, at, n int64) []byte {
	out := make([]byte, 0, n)
	for at %= int64(len(data)); n > 0; at = 0 {
		k := min(n, int64(len(data))-at)
		out = append(out, data[at:at+k]...)
		n -= k
	}
	return out
}
