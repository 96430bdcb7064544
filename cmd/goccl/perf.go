package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/cmd/goccl/internal/perf"
	"github.com/goccl/goccl/cmd/goccl/internal/picture"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/launch"
	"github.com/goccl/goccl/job/topo"
)

type perfCommand struct {
	Collective string `arg:"" help:"all_reduce, all_gather, reduce_scatter, all_to_all, all_to_all_v, all_to_all_v_device, broadcast, reduce, gather, scatter, send_recv, or decode: the fused all-reduces of decode steps."`
	perf.Options

	Dtype []string `short:"d" default:"float" help:"Element types, by nccl-tests' names (float, half, bfloat16, int8, f8e4m3, ...), or all."`
	Op    []string `short:"o" default:"sum" help:"sum, prod, max, min, avg, mulsum, or all."`
	Root  *int     `short:"r" placeholder:"RANK" help:"Root of broadcast, reduce, gather and scatter (default 0)."`

	DeviceCounts bool `help:"Of all_to_all_v: have the counts read on the device. The same as all_to_all_v_device."`
}

// Run measures and maps wrong results to exit status 3.
func (c *perfCommand) Run(ctx context.Context, s *streams, k *kong.Context) error {
	if c.Timeout <= 0 {
		return &exitError{2, errors.New("--timeout 0: use a positive time, such as 60s")}
	}
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
	o := &c.Options
	s.launch(&o.Launch)
	o.Kind, o.Seed, o.Draw = kind, uint64(time.Now().UnixNano()), picture.Draw
	if c.Root != nil {
		o.Config.Root = *c.Root
	}
	o.Machine = func() any { return machine(context.WithoutCancel(ctx)) }
	if o.Types, err = parsed(c.Dtype, datatype.NumTypes, datatype.ParseType); err != nil {
		return &exitError{2, err}
	}
	if o.Ops, err = parsed(c.Op, datatype.NumOps, datatype.ParseOp); err != nil {
		return &exitError{2, err}
	}
	err = perf.Run(ctx, *o)
	var ofRank *goccl.Error
	var exit *launch.ExitError
	switch {
	case errors.Is(err, perf.ErrFailed):
		return &exitError{perf.ExitFailed, nil}
	case len(c.Algos) > 0 && errors.Is(err, goccl.ErrInvalidArgument) && errors.As(err, &ofRank):
		return &exitError{2, fmt.Errorf("--algo %s: %w", strings.Join(c.Algos, ","), ofRank.Err)}
	case errors.As(err, &exit):
		return &exitError{exit.ExitCode(), err}
	case errors.Is(err, perf.ErrInvalid):
		return &exitError{2, err}
	}
	return err
}

// launch fills in how ranks are started and where they write.
func (s *streams) launch(l *perf.Launch) {
	l.Command, l.Stdout, l.Stderr = commandLine(), s.out, s.stderr
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
	}
	return nil
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
	o := perf.DecodeOptions{Ranks: c.Ranks, Timeout: c.Timeout, JSON: c.JSON, Stdout: s.out, Type: datatype.Bfloat16}
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
		o.Steps = c.Iters
	}
	if list, err := parsed(c.Dtype, datatype.NumTypes, datatype.ParseType); err != nil || len(list) != 1 {
		return &exitError{2, fmt.Errorf("decode takes one element type: half, bfloat16 or float")}
	} else if list[0] != datatype.Float32 || len(c.Dtype) == 1 && c.Dtype[0] == "float32" { // float is perf's default
		o.Type = list[0]
	}
	if len(c.SizeList) > 0 {
		o.Batches = nil
	}
	for _, n := range c.SizeList {
		rows := n / (o.Hidden * o.Type.Size())
		if rows < 1 || rows*o.Hidden*o.Type.Size() != n {
			return &exitError{2, fmt.Errorf("--sizes: %d bytes are no rows of %d elements of %v", n, o.Hidden, o.Type)}
		}
		o.Batches = append(o.Batches, rows)
	}
	return perf.Decode(ctx, o)
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
	return nil
}
