package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/bench/internal/figure"
	"github.com/goccl/goccl/bench/internal/ranks"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
)

// rank is one rank of the measurement.
type rank struct {
	ranks.Group
	dev    device.Device
	mesh   *mesh
	kernel kernels
	report *figure.Report // of rank 0
}

// rank joins the others, sets the mesh up and measures.
//
//  1. join      the bootstrap; its time is part of the set-up
//  2. device    the context of the GPU is created; its time is reported separately, and so is the wait for the slowest
//     rank
//  3. mesh      connections, memories, semaphores and channels with every peer, up to the first barrier over the
//     channels
//  4. measure   each figure after a barrier, so that ranks which do not participate are idle
func (o *options) rank(ctx context.Context, env bootstrap.Env) (err error) {
	r := &rank{}
	if r.Bootstrap, err = bootstrap.Join(ctx, env); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Bootstrap.Close()) }()
	joined := time.Since(started)
	if err := r.Meet(ctx); err != nil {
		return err
	}

	begin := time.Now()
	if r.dev, err = o.Open(r); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.dev.Close()) }()
	opened := time.Since(begin)
	if err := r.Meet(ctx); err != nil {
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
		r.report = figure.New(ctx, r.WorldSize(), r.dev, o.Device == "cuda")
	}
	if err := r.setupFigures(ctx, setup, joined, opened); err != nil {
		return err
	}
	if err := r.measure(ctx, o.bytes); err != nil {
		return fmt.Errorf("rank %d: %w", r.Rank(), err)
	}
	if err := r.Meet(ctx); err != nil { // no rank leaves while a peer may use its memory
		return err
	}
	if r.report != nil && o.JSON != "" {
		return r.report.Write(o.JSON)
	}
	return nil
}

// channelBarrier exchanges a signal between every pair of ranks, in rounds of disjoint pairs.
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

// rounds returns the number of rounds of disjoint pairs in which each of n ranks meets every other rank.
func rounds(n int) int { return n - 1 + n%2 }

// partner returns the rank that rank me meets in a round: the rank for which the sum of both is the round, modulo
// rounds(n). A rank that would meet itself meets the last rank of an even n, to which the rule does not apply, or none
// (-1).
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
