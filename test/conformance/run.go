package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/hostreduce"
)

// Run runs the case on all communicators of one job, which are in this process, and checks every byte. It returns the
// first error.
func Run(comms []*goccl.Comm, c Case) error {
	n := len(comms)
	inputs := c.Inputs(n)
	outputs := make([][]byte, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			outputs[r], errs[r] = RunRank(comms[r], c, inputs)
		}()
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if c.Collective == collective.AllReduce {
		for r := 1; r < n; r++ {
			if string(outputs[r]) != string(outputs[0]) {
				return fmt.Errorf("%v: ranks 0 and %d have different bits", c, r)
			}
		}
	}
	return nil
}

// Outputs runs the case as Run does and returns what each rank gets and should get.
func Outputs(comms []*goccl.Comm, c Case) (got, want [][]byte, err error) {
	n := len(comms)
	inputs, errs := c.Inputs(n), make([]error, n)
	got, want = make([][]byte, n), make([][]byte, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			if got[r], errs[r] = c.output(comms[r], inputs); errs[r] == nil {
				want[r], errs[r] = c.expect(r, n, inputs)
			}
		})
	}
	wg.Wait()
	return got, want, errors.Join(errs...)
}

// RunRank runs one rank's part of Run; inputs are the inputs of all ranks.
func RunRank(comm *goccl.Comm, c Case, inputs [][]byte) (output []byte, err error) {
	r, n, size := comm.Rank(), comm.WorldSize(), c.Type.Size()
	want, err := c.expect(r, n, inputs)
	if err != nil {
		return nil, err
	}
	got, err := c.output(comm, inputs)
	if err != nil {
		return nil, err
	}
	wrong, first := hostreduce.Check(got, want, c.Type, c.Op, n)
	if c.Exact {
		wrong, first = bitsDiffer(got, want, size)
	}
	if wrong != 0 {
		lo := max(0, min(first*size, int64(len(got))-16))
		return nil, fmt.Errorf("%v on rank %d: %d of %d elements are wrong, the first is %d: got % x, want % x", c, r, wrong,
			int64(len(want))/size, first,
			got[lo:min(lo+16, int64(len(got)))], want[lo:min(lo+16, int64(len(want)))])
	}
	return got, nil
}

// output runs one rank's part and returns its output.
func (c Case) output(comm *goccl.Comm, inputs [][]byte) (output []byte, err error) {
	r, n, size := comm.Rank(), comm.WorldSize(), c.Type.Size()
	send, recv := c.sizes(r, n)
	b, err := newBuffers(comm.Device(), send*size, recv*size, c.Shift*size, c.inPlaceOffset(r, n, size))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.fill(inputs[r]); err != nil {
		return nil, err
	}
	s, err := comm.Device().NewStream()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	reqs := c.requests(r, n, b.send, b.recv, s)
	if c.Collective == collective.AllToAllVDevice {
		if reqs[0].DeviceCounts, err = b.deviceCounts(&reqs[0]); err != nil {
			return nil, err
		}
	}
	times := 1
	if !c.InPlace {
		times += c.Repeat
	}
	for range times {
		if err := comm.Submit(reqs...); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	if err := comm.Synchronize(ctx, s); err != nil {
		return nil, err
	}
	got, err := b.result()
	if err != nil {
		return nil, fmt.Errorf("%v on rank %d: %w", c, r, err)
	}
	return got, nil
}
