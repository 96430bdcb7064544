package perf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/job/bootstrap"
)

// DecodeOptions are the options of Decode.
type DecodeOptions struct {
	Ranks   int
	Kind    device.Kind
	Hidden  int64
	Batches []int64 // rows
	Layers  int
	Steps   int // timed; a few more come before
	Type    datatype.Type
	Timeout time.Duration
	JSON    string
	Stdout  io.Writer
}

// DecodeResult is one line: the time of an operation in a step, by the slowest rank.
type DecodeResult struct {
	Batch     int64   `json:"batch"`
	Bytes     int64   `json:"bytes"`
	Algorithm string  `json:"algorithm"`
	Captured  bool    `json:"captured"`
	Micros    float64 `json:"us_per_operation"`
}

// decodeAlgorithms are measured in this order; each has the bits of the first.
var decodeAlgorithms = []string{"apart", "one_shot", "two_shot"}

// Decode measures the communication of decode steps as an engine of inference runs them, and prints it: `goccl perf
// decode`. A step is a fused all-reduce, with residual and RMSNorm, twice a layer. On GPUs its operations are captured
// in one graph, and beside it a small eager all-reduce runs on another stream, as an engine's sampling does. There are
// no matrix products between them. On the host device the operations run eagerly. All ranks are goroutines.
func Decode(ctx context.Context, o DecodeOptions) error {
	results := make([][]DecodeResult, o.Ranks)
	norms := make([][]byte, o.Ranks)
	if err := RanksAsThreads(ctx, o.Ranks, func(ctx context.Context, boot bootstrap.Bootstrap, r int) error {
		k := decoding{DecodeOptions: &o, boot: boot}
		err := k.run(ctx)
		results[r], norms[r] = k.results, k.norms
		return errors.Join(err, boot.Close())
	}); err != nil {
		return err
	}
	for r := range norms {
		if !bytes.Equal(norms[r], norms[0]) {
			return fmt.Errorf("rank %d has other results than rank 0", r)
		}
	}
	fmt.Fprintf(o.Stdout, "# decode: %d ranks, %d layers of 2 fused all-reduces, hidden %d, %v\n", o.Ranks, o.Layers,
		o.Hidden, o.Type)
	fmt.Fprintf(o.Stdout, "%8s %10s  %-9s %8s %12s\n", "batch", "bytes", "algorithm", "captured", "us")
	for i := range results[0] {
		for r := range results { // the slowest rank counts
			results[0][i].Micros = max(results[0][i].Micros, results[r][i].Micros)
		}
		x := results[0][i]
		fmt.Fprintf(o.Stdout, "%8d %10d  %-9s %8t %12.2f\n", x.Batch, x.Bytes, x.Algorithm, x.Captured, x.Micros)
	}
	return SaveJSON(o.JSON, map[string]any{"schema": "goccl-decode/1", "ranks": o.Ranks, "layers": o.Layers,
		"hidden": o.Hidden, "type": o.Type.String(), "results": results[0]}, os.Stdout)
}

// decoding is one rank's part.
type decoding struct {
	*DecodeOptions
	boot    bootstrap.Bootstrap
	comm    *goccl.Comm
	fusion  *goccl.Fusion
	dev     device.Device
	results []DecodeResult
	norms   []byte // of all lines, one after the other

	step, side device.Stream
	memory     device.Allocation
}

func (k *decoding) run(ctx context.Context) (err error) {
	if k.dev, err = OpenDevice(k.Kind, k.boot.Rank()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.dev.Close()) }()
	k.comm, err = goccl.NewComm(ctx, goccl.Config{Bootstrap: k.boot, Device: k.dev, Timeout: k.Timeout,
		OpTimeout: k.Timeout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.comm.Close()) }()
	row := k.Hidden * k.Type.Size()
	if k.fusion, err = k.comm.NewFusion(ctx, goccl.FusionConfig{RowBytes: row}); err != nil {
		return err
	}
	for _, s := range []*device.Stream{&k.step, &k.side} {
		if *s, err = k.dev.NewStream(); err != nil {
			return err
		}
	}
	for _, batch := range k.Batches {
		if k.memory, err = k.dev.Alloc(3*batch*row + row + 4096); err != nil {
			return err
		}
		for _, name := range decodeAlgorithms {
			if err = k.line(ctx, batch, name); err != nil {
				return fmt.Errorf("batch %d, %s: %w", batch, name, err)
			}
		}
		if err = k.memory.Close(); err != nil {
			return err
		}
	}
	return nil
}

// line measures one algorithm.
func (k *decoding) line(ctx context.Context, batch int64, name string) error {
	bytesOf := batch * k.Hidden * k.Type.Size()
	at := func(i int64) device.Ptr { return k.memory.Ptr().Add(i * bytesOf) }
	input, residual := make([]byte, bytesOf), make([]byte, bytesOf)
	hostreduce.Fill(input, k.Type, 1, k.boot.Rank())
	hostreduce.Fill(residual, k.Type, 2, 0)
	if err := errors.Join(k.dev.CopyIn(at(0), input), k.dev.CopyIn(at(1), residual)); err != nil {
		return err
	}
	r := goccl.FusedRequest{Tokens: batch, Hidden: k.Hidden, Type: k.Type, Input: at(0), Residual: at(1), Norm: at(2),
		Epsilon: 1e-6, Algorithm: name, Stream: k.step}
	small := at(3).Add(k.Hidden * k.Type.Size())
	ops := 2 * k.Layers
	layers := func() error {
		for range ops {
			if err := k.fusion.AllReduce(r); err != nil {
				return err
			}
		}
		return nil
	}
	run, captured := layers, k.Kind == device.CUDA
	if captured {
		g, err := Capture(k.step, layers)
		if err != nil {
			return err
		}
		run = func() error { return g.Launch(k.step) }
	}
	var began time.Time
	for i := range k.Steps + 2 {
		if i == 2 {
			if err := k.wait(ctx); err != nil {
				return err
			}
			if err := k.boot.Barrier(ctx); err != nil {
				return err
			}
			began = time.Now()
		}
		if err := run(); err != nil {
			return err
		}
		if err := k.comm.AllReduce(small, small, 64, datatype.Float32, datatype.Max, k.side); err != nil {
			return err
		}
	}
	if err := k.wait(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	k.results = append(k.results, DecodeResult{batch, bytesOf, name, captured,
		float64(took.Nanoseconds()) / 1000 / float64(k.Steps*ops)})
	norm := make([]byte, bytesOf)
	if err := k.dev.CopyOut(norm, at(2)); err != nil {
		return err
	}
	if n := len(norm); name != decodeAlgorithms[0] && !bytes.Equal(norm, k.norms[len(k.norms)-n:]) {
		return fmt.Errorf("other results than %s has", decodeAlgorithms[0])
	}
	k.norms = append(k.norms, norm...)
	return nil
}

func (k *decoding) wait(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, k.Timeout)
	defer stop()
	return errors.Join(k.comm.Synchronize(ctx, k.step), k.comm.Synchronize(ctx, k.side))
}
