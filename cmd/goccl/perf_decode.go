package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/goccl/goccl/cmd/goccl/internal/decode"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

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
