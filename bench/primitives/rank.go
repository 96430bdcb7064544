package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
)

// rank is one rank of the measurement.
type rank struct {
	bootstrap.Bootstrap
	dev    device.Device
	mesh   *mesh
	kernel kernels
	report *report // of rank 0
}

// opWait bounds one step: a barrier, or a kernel.
const opWait = 30 * time.Second

// rank joins the others, sets the mesh up and measures.
//
//  1. join      the bootstrap; its time counts as set-up
//  2. device    the context of the GPU is made; its time is told apart, and so is the wait for the slowest
//  3. mesh      connections, memories, semaphores and channels with everybody, up to the first barrier over the channels
//  4. measure   each figure behind a barrier, so that ranks which take no part keep still
func (o *options) rank(ctx context.Context, env bootstrap.Env) (err error) {
	if env.WorldSize < 2 || env.WorldSize > maxRanks {
		return fmt.Errorf("started as %d ranks: from 2 to %d", env.WorldSize, maxRanks)
	}
	r := &rank{}
	if r.Bootstrap, err = bootstrap.Join(ctx, env); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Bootstrap.Close()) }()
	joined := time.Since(started)
	if err := r.meet(ctx); err != nil {
		return err
	}

	begin := time.Now()
	local := bootstrap.LocalRank(r)
	if o.device == "host" {
		r.dev, err = host.Open(local)
	} else {
		r.dev, err = cuda.Open(local)
	}
	if err != nil {
		return fmt.Errorf("rank %d: %w", r.Rank(), err)
	}
	defer func() { err = errors.Join(err, r.dev.Close()) }()
	opened := time.Since(begin)
	if err := r.meet(ctx); err != nil {
		return err
	}

	begin = time.Now()
	if r.mesh, err = newMesh(ctx, r); err != nil {
		return fmt.Errorf("rank %d: set up the mesh: %w", r.Rank(), err)
	}
	defer func() { err = errors.Join(err, r.mesh.close()) }()
	if r.kernel, err = newKernels(r); err != nil {
		return fmt.Errorf("rank %d: %w", r.Rank(), err)
	}
	defer func() { err = errors.Join(err, r.kernel.close()) }()
	if err := r.channelBarrier(); err != nil {
		return fmt.Errorf("rank %d: the first barrier over the channels: %w", r.Rank(), err)
	}
	setup := joined + time.Since(begin)

	if r.Rank() == 0 {
		r.report = newReport(ctx, r, o.device == "cuda")
	}
	if err := r.setupFigures(ctx, setup, joined, opened); err != nil {
		return err
	}
	if err := r.measure(ctx, o.bytes); err != nil {
		return fmt.Errorf("rank %d: %w", r.Rank(), err)
	}
	if err := r.meet(ctx); err != nil { // nobody leaves while a peer may use its memory
		return err
	}
	if r.report != nil && o.json != "" {
		return r.report.write(o.json)
	}
	return nil
}

// meet is a barrier of all ranks by the bootstrap.
func (r *rank) meet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, opWait)
	defer cancel()
	return r.Barrier(ctx)
}

// all gathers a number of each rank.
func (r *rank) all(ctx context.Context, mine float64) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, opWait)
	defer cancel()
	blobs, err := r.AllGather(ctx, binary.LittleEndian.AppendUint64(nil, math.Float64bits(mine)))
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(blobs))
	for i, b := range blobs {
		if len(b) != 8 {
			return nil, fmt.Errorf("rank %d sent %d bytes for a number: start the same program everywhere", i, len(b))
		}
		values[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return values, nil
}

// channelBarrier lets every pair of ranks exchange a signal, in rounds of disjoint pairs.
func (r *rank) channelBarrier() error {
	n, me := r.WorldSize(), r.Rank()
	for round := range rounds(n) {
		if p := partner(n, round, me); p >= 0 {
			if _, err := r.kernel.signal(p, me < p, 1, false); err != nil {
				return fmt.Errorf("with rank %d: %w", p, err)
			}
		}
	}
	return nil
}

// rounds is how many rounds of disjoint pairs it takes until everybody has met everybody of n.
func rounds(n int) int { return n - 1 + n%2 }

// partner is whom rank me meets in a round: the rank for which the sum of both is the round, modulo rounds(n). Whoever would meet itself meets the last
// rank of an even n, which sits outside of that rule, or nobody (-1).
func partner(n, round, me int) int {
	m := rounds(n)
	if n%2 == 0 && me == n-1 {
		for i := range m {
			if 2*i%m == round {
				return i
			}
		}
	}
	p := (round - me + m) % m
	switch {
	case p != me:
		return p
	case n%2 == 0:
		return n - 1
	}
	return -1
}
