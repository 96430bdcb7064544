package executor_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/programs"
)

// TestNothingIsWrittenLater checks that when a failed launch has returned, no rank of the process writes to its
// buffers.
func TestNothingIsWrittenLater(t *testing.T) {
	const n, message = 3, 8 << 20
	late, lost, trials := 0, 0, 12
	for trial := range trials {
		j := newJob(t, n, openHost)
		p, err := programs.Build("allgather_direct", programs.Options{Ranks: n})
		if err != nil {
			t.Fatal(err)
		}
		xs := j.load(t, p)
		for _, x := range xs {
			x.UseCores(1 + trial%3)
		}
		mine := bytes.Repeat([]byte{0x5a}, n*message)
		over, checked := make(chan struct{}, n), make(chan struct{})
		after := time.Duration(rand.Int64N(int64(10 * time.Millisecond)))
		if err := j.each(func(r int) (err error) {
			var mem [2]device.Allocation
			for k, size := range []int64{message, n * message} {
				if mem[k], err = j.devs[r].Alloc(size); err != nil {
					return err
				}
			}
			defer func() {
				<-checked
				err = errors.Join(err, mem[0].Close(), mem[1].Close())
			}()
			if r == 0 {
				defer close(checked)
			} else {
				defer func() { over <- struct{}{} }()
			}
			s, err := j.devs[r].NewStream()
			if err != nil {
				return err
			}
			if r == 0 {
				time.AfterFunc(after, func() { j.execs[0].Abort(collective.ErrAborted) })
			}
			run := func() error {
				a := executor.Args{Send: mem[0].Ptr(), Recv: mem[1].Ptr(), Message: n * message, Type: datatype.Int8, Stream: s}
				if err := xs[r].Execute(bounded(t), a); err != nil {
					return err
				}
				return s.Synchronize(bounded(t))
			}
			for err == nil {
				err = run()
			}
			if !errors.Is(err, collective.ErrAborted) {
				return fmt.Errorf("rank %d: %w", r, err)
			}
			if r != 0 {
				return nil
			}
			if err := j.devs[0].CopyIn(mem[1].Ptr(), mine); err != nil {
				return err
			}
			time.Sleep(2 * time.Millisecond) // the others go on, as if they had not heard of it
			for _, e := range j.execs[1:] {
				e.Abort(collective.ErrAborted)
			}
			for range n - 1 {
				<-over
			}
			got := make([]byte, len(mine))
			if err := j.devs[0].CopyOut(got, mem[1].Ptr()); err != nil {
				return err
			}
			if wrong := len(got) - bytes.Count(got, []byte{0x5a}); wrong > 0 {
				late, lost = late+1, lost+wrong
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if late > 0 {
		t.Errorf("%d of %d buffers were written to after their owner had them back, %d bytes", late, trials, lost)
	}
}

// One worker of rank 0 has done its part when the other, which waits for rank 2, is aborted: what rank 2 does
// afterwards must not reach rank 0's output.
func TestWorkersFailTogether(t *testing.T) {
	const n, message = 3, 1 << 20
	j := newJob(t, n, openHost)
	p, err := programs.Build("allgather_direct", programs.Options{Ranks: n, Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	xs := j.load(t, p)
	mine := bytes.Repeat([]byte{0x5a}, n*message)
	returned, over := make(chan struct{}), make(chan struct{})
	var output device.Ptr // of rank 0
	if err := j.each(func(r int) (err error) {
		xs[r].UseCores(2)
		mem := [2]device.Allocation{}
		for k, size := range []int64{message, n * message} {
			if mem[k], err = j.devs[r].Alloc(size); err != nil {
				return err
			}
		}
		defer func() {
			<-over
			err = errors.Join(err, mem[0].Close(), mem[1].Close())
		}()
		s, err := j.devs[r].NewStream()
		if err != nil {
			return err
		}
		switch r {
		case 0:
			output = mem[1].Ptr()
			defer close(returned)
			time.AfterFunc(20*time.Millisecond, func() { j.execs[0].Abort(collective.ErrAborted) })
		case 2:
			defer close(over)
			<-returned
			time.AfterFunc(20*time.Millisecond, func() { j.execs[2].Abort(collective.ErrAborted) })
		}
		a := executor.Args{Send: mem[0].Ptr(), Recv: mem[1].Ptr(), Message: n * message, Type: datatype.Int8, Stream: s}
		if err = xs[r].Execute(bounded(t), a); err == nil {
			err = s.Synchronize(bounded(t))
		}
		if r != 1 && !errors.Is(err, collective.ErrAborted) { // rank 1 gets all data, if it is in time
			return fmt.Errorf("rank %d: %w", r, err)
		}
		switch r {
		case 0:
			return j.devs[0].CopyIn(mem[1].Ptr(), mine)
		case 1:
			err = nil
		case 2:
			err = nil
			got := make([]byte, len(mine))
			if err := j.devs[0].CopyOut(got, output); err != nil {
				return err
			}
			if wrong := len(got) - bytes.Count(got, []byte{0x5a}); wrong > 0 {
				return fmt.Errorf("%d bytes of rank 0 were written to after its launch had returned", wrong)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
