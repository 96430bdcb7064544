package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/cmd/goccl/internal/decode"
	"github.com/goccl/goccl/cmd/goccl/internal/perf"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/launch"
	"github.com/goccl/goccl/job/topo"
)

type perfCommand struct {
	Collective string `arg:"" help:"all_reduce, all_gather, reduce_scatter, all_to_all, all_to_all_v, all_to_all_v_device, broadcast, reduce, gather, scatter, send_recv, or decode: the fused all-reduces of decode steps."`

	Ranks     count  `short:"n" placeholder:"N" help:"Ranks to start here. Default: one per GPU; 8 on the host device. A launcher (mpirun, torchrun, srun) decides itself."`
	Device    string `enum:"auto,host,cuda" default:"auto" help:"auto, host or cuda. auto is cuda where a GPU can be used."`
	Processes bool   `xor:"layout" help:"A process per rank. The default on cuda."`
	Hosts     int    `placeholder:"N" help:"Make N hosts on this machine (network namespaces; needs root) and divide the ranks among them. The default is 4 ranks a host."`
	Threads   bool   `xor:"layout" help:"All ranks in this process. The default on the host device."`

	MinBytes size    `short:"b" default:"8" placeholder:"SIZE" help:"Smallest size (default 8). K, M and G are understood."`
	MaxBytes size    `short:"e" default:"64M" placeholder:"SIZE" help:"Largest size (default 64M); it is always measured."`
	Factor   float64 `short:"f" default:"4" help:"From one size to the next (default ${default})."`
	Sizes    sizes   `placeholder:"SIZE,..." help:"These sizes, in this order, instead of a range."`
	Iters    count   `short:"i" placeholder:"N" help:"Operations in a timed batch. Default: as many as take about 20 ms; 200 ms for processes of the host device that are more than the processors."`
	Cycles   int     `short:"c" default:"5" help:"Timed batches (default ${default})."`
	Warmup   int     `short:"w" default:"1" help:"Operations before the first batch (default ${default})."`

	Dtype  []string `short:"d" default:"float" help:"Element types, by nccl-tests' names (float, half, bfloat16, int8, f8e4m3, ...), or all."`
	Op     []string `short:"o" default:"sum" help:"sum, prod, max, min, avg, mulsum, or all."`
	Root   *int     `short:"r" placeholder:"RANK" help:"Root of broadcast, reduce, gather and scatter (default 0)."`
	Offset int64    `short:"u" placeholder:"N" help:"Shift buffers by this many elements from their natural alignment."`

	DeviceCounts bool `help:"Of all_to_all_v: have the counts read on the device. The same as all_to_all_v_device."`

	InPlace    bool     `help:"Only in place. Default: out of place and in place."`
	OutOfPlace bool     `help:"Only out of place."`
	Check      bool     `default:"true" negatable:"" help:"Check every element of every result (default)."`
	Isolated   bool     `help:"Wait for each operation before the next, and time each."`
	Graph      graphOps `short:"G" placeholder:"OPS" help:"Capture this many operations in a CUDA graph and time its replay; auto: 200, fewer where they are long."`
	Windows    bool     `help:"Register goccl's buffers as windows: large all-gathers and all-to-alls then go by copy engines."`
	Algo       []string `placeholder:"NAME" help:"Force an algorithm, or compare several in the same run, the first being the measure; all: goccl's choice and every algorithm."`
	Against    []string `sep:"none" placeholder:"PATH" help:"Measure a library with NCCL's ABI (libnccl.so.2) in the same run, in turns, on the same buffers."`

	JSON    string        `name:"json" placeholder:"FILE" help:"Write the results, with machine and build, to a file. - is standard output; the table then goes to standard error."`
	Plot    string        `placeholder:"FILE.svg" help:"Draw bus bandwidth and time over the size."`
	Timeout time.Duration `default:"60s" help:"Bound on every wait (default ${default})."`
}

// graphOps is a number of operations, or auto.
type graphOps int

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *graphOps) UnmarshalText(b []byte) error {
	if string(b) == "auto" {
		*g = perf.GraphAuto
		return nil
	}
	n, err := strconv.Atoi(string(b))
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a number of operations: use a number, or auto", b)
	}
	*g = graphOps(n)
	return nil
}

// Run measures and maps wrong results to exit status 3.
func (c *perfCommand) Run(ctx context.Context, s *streams, k *kong.Context) error {
	if c.Collective == "decode" {
		return c.decode(ctx, s, k)
	}
	kind, err := perf.ParseKind(c.Collective)
	if err == nil {
		err = c.refuse(kind)
	}
	if err != nil {
		return &exitError{2, err}
	}
	if c.DeviceCounts {
		if kind.Collective != collective.AllToAllV && kind.Collective != collective.AllToAllVDevice {
			return &exitError{2, fmt.Errorf("--device-counts: %v has no counts: measure all_to_all_v", kind)}
		}
		kind.Collective = collective.AllToAllVDevice
	}
	o := perf.Options{
		Config: perf.Config{Kind: kind, Root: c.root(), MinBytes: int64(c.MinBytes), MaxBytes: int64(c.MaxBytes),
			Factor: c.Factor, Iters: int(c.Iters),
			Warmup: c.Warmup, Cycles: c.Cycles, Check: c.Check, OutOfPlace: c.OutOfPlace, InPlace: c.InPlace,
			Isolated: c.Isolated, GraphOps: int(c.Graph),
			Offset: c.Offset, Windows: c.Windows, Seed: uint64(time.Now().UnixNano()), Timeout: c.Timeout},
		Launch: s.launch(c.Ranks, c.Hosts, c.Device, c.Processes, c.Threads),
		Algos:  c.Algo, Against: c.Against, JSON: c.JSON, Plot: c.Plot,
		Machine: func() any { return machine(context.WithoutCancel(ctx)) },
	}
	for _, n := range c.Sizes {
		o.SizeList = append(o.SizeList, int64(n))
	}
	if o.Types, err = parsed(c.Dtype, datatype.NumTypes, datatype.ParseType); err != nil {
		return &exitError{2, err}
	}
	if o.Ops, err = parsed(c.Op, datatype.NumOps, datatype.ParseOp); err != nil {
		return &exitError{2, err}
	}
	err = perf.Run(ctx, o)
	var ofRank *goccl.Error
	var exit *launch.ExitError
	switch {
	case errors.Is(err, perf.ErrFailed):
		return &exitError{perf.ExitFailed, nil}
	case len(c.Algo) > 0 && errors.Is(err, goccl.ErrInvalidArgument) && errors.As(err, &ofRank):
		return &exitError{2, fmt.Errorf("--algo %s: %w", strings.Join(c.Algo, ","), ofRank.Err)}
	case errors.As(err, &exit):
		return &exitError{exit.ExitCode(), err}
	case errors.Is(err, perf.ErrInvalid):
		return &exitError{2, err}
	}
	return err
}

// launch says on which ranks to measure.
func (s *streams) launch(ranks count, hosts int, device string, processes, threads bool) perf.Launch {
	l := perf.Launch{Ranks: int(ranks), Hosts: hosts, Device: device, Command: commandLine(), Stdout: s.out,
		Stderr: s.stderr}
	switch {
	case processes:
		l.Layout = perf.LayoutProcesses
	case threads:
		l.Layout = perf.LayoutThreads
	}
	return l
}

// refuse returns an error for options that this measurement does not have, and for numbers that mean nothing.
func (c *perfCommand) refuse(kind perf.Kind) error {
	switch {
	case c.Root != nil && !kind.HasRoot():
		return fmt.Errorf("--root: %v has no root: leave it out", kind)
	case c.Cycles < 1:
		return fmt.Errorf("--cycles %d: at least one batch is timed", c.Cycles)
	case c.Factor <= 1:
		return fmt.Errorf("--factor %g: from one size to the next it is above 1", c.Factor)
	case c.Timeout <= 0:
		return errors.New("--timeout 0: use a positive time, such as 60s")
	}
	return nil
}

func (c *perfCommand) root() int {
	if c.Root == nil {
		return 0
	}
	return *c.Root
}

// machine describes this machine for the record, as far as it can be detected.
func machine(ctx context.Context) any {
	m, err := topo.Detect(ctx)
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return m
}

// parsed parses names, of which all means every value below the number of values.
func parsed[T ~uint8](names []string, number T, parse func(string) (T, error)) (list []T, err error) {
	for _, n := range names {
		if n == "all" {
			for v := range number {
				list = append(list, v)
			}
			continue
		}
		v, err := parse(n)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// decode measures decode steps: all ranks in this process. --sizes are the bytes of a batch.
func (c *perfCommand) decode(ctx context.Context, s *streams, k *kong.Context) error {
	if err := c.onlyDecode(k); err != nil {
		return &exitError{2, err}
	}
	o := decode.Options{Ranks: int(c.Ranks), Timeout: c.Timeout, JSON: c.JSON, Stdout: s.out, Type: datatype.Bfloat16}
	gpus, _ := cuda.Count()
	onGPUs := c.Device == "cuda" || c.Device == "auto" && gpus > 0
	o.Kind = device.Host
	if onGPUs {
		o.Kind = device.CUDA
		o.Hidden, o.Batches, o.Layers, o.Steps = 8192, []int64{1, 4, 16, 64, 256}, 64, 20
	} else {
		o.Hidden, o.Batches, o.Layers, o.Steps = 1024, []int64{1, 8}, 4, 5
	}
	if o.Ranks == 0 {
		o.Ranks = 4
		if onGPUs {
			o.Ranks = max(gpus, 1)
		}
	}
	if c.Iters > 0 {
		o.Steps = int(c.Iters)
	}
	if list, err := parsed(c.Dtype, datatype.NumTypes, datatype.ParseType); err != nil || len(list) != 1 {
		return &exitError{2, fmt.Errorf("decode takes one element type: half, bfloat16 or float")}
	} else if list[0] != datatype.Float32 || len(c.Dtype) == 1 && c.Dtype[0] == "float32" { // float is perf's default
		o.Type = list[0]
	}
	if len(c.Sizes) > 0 {
		o.Batches = nil
	}
	for _, n := range c.Sizes {
		rows := int64(n) / (o.Hidden * o.Type.Size())
		if rows < 1 || rows*o.Hidden*o.Type.Size() != int64(n) {
			return &exitError{2, fmt.Errorf("--sizes: %d bytes are no rows of %d elements of %v", int64(n), o.Hidden, o.Type)}
		}
		o.Batches = append(o.Batches, rows)
	}
	return decode.Run(ctx, o)
}

// onlyDecode returns an error for an option that decode does not have. Options with their default values pass.
func (c *perfCommand) onlyDecode(k *kong.Context) error {
	has := []string{"ranks", "device", "threads", "iters", "sizes", "dtype", "json", "timeout"}
	for _, p := range k.Path {
		f := p.Flag
		if f == nil || slices.Contains(has, f.Name) {
			continue
		}
		usual := reflect.New(f.Target.Type()).Elem()
		if f.HasDefault {
			if err := f.Parse(kong.Scan(f.Default), usual); err != nil {
				return err
			}
		}
		if !reflect.DeepEqual(f.Target.Interface(), usual.Interface()) {
			return fmt.Errorf("decode has no --%s: it takes -n, --device, -i, -d, --sizes, --timeout and --json; "+
				"--sizes are the bytes of a batch", f.Name)
		}
	}
	if c.Timeout <= 0 {
		return errors.New("--timeout 0: use a positive time, such as 60s")
	}
	return nil
}
