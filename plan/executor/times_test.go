package executor_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/commtest"
)

var (
	timesTo  = flag.String("plan-times", "", "file to which TestGPUTimes writes what goccl plan fit reads")
	timesFor = flag.Duration("plan-times-for", 2*time.Minute, "no plan begins to be timed after that time")
)

// planTime is a row of the file.
type planTime struct {
	Program   string  `json:"program"`
	Ranks     int     `json:"ranks"`
	Instances int     `json:"instances,omitempty"`
	Size      int64   `json:"size"`
	Micros    float64 `json:"us"`
	Device    string  `json:"device"`
	Graph     bool    `json:"graph"`
}

const largestTimed = 64 << 20

// TestGPUTimes times all programs on 2, 3, … GPUs, replayed from graphs, in registered buffers. It needs a file to
// write to.
func TestGPUTimes(t *testing.T) {
	if *timesTo == "" {
		t.Skip("-plan-times names no file")
	}
	_, open := commtest.GPUs(t)
	gpus, err := cuda.Count()
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	jobs := map[int]*job{}
	buffers := map[int][][2]device.Allocation{}
	for n := 2; n <= gpus; n++ {
		j := newJob(t, n, open)
		mem := make([][2]device.Allocation, n)
		if err := j.each(func(r int) (err error) {
			for k := range mem[r] {
				if mem[r][k], err = j.devs[r].Alloc(int64(n) * largestTimed); err != nil {
					return err
				}
				if err = j.execs[r].Register(bounded(t), mem[r][k].Ptr()); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		jobs[n], buffers[n] = j, mem
	}
	var rows []planTime
	for _, instances := range []int{0, 4, 1, 16} {
		for _, prog := range programs.All() {
			for n := 2; n <= gpus; n++ {
				o := programs.Options{Ranks: n, Instances: instances}
				if prog.Supports(o) != nil || time.Since(begun) > *timesFor {
					continue
				}
				p, err := prog.Build(o)
				if err != nil {
					t.Fatal(err)
				}
				xs := jobs[n].load(t, p, executor.Registered(), executor.Trusted())
				for _, size := range messages(xs[0], n, 4, 1<<10, 16<<10, 128<<10, 1<<20, 8<<20, largestTimed) {
					if xs[0].Takes(size, datatype.Float32, datatype.Sum) != nil || p.Protocol == plan.LL && size > 1<<20 {
						continue // packets of large messages would take more memory than there is for all plans
					}
					took := make([]time.Duration, n)
					if err := jobs[n].each(func(r int) (err error) {
						took[r], err = jobs[n].timed(t, xs[r], r, executor.Args{Send: buffers[n][r][0].Ptr(),
							Recv: buffers[n][r][1].Ptr(), Message: size, Type: datatype.Float32})
						return err
					}); err != nil {
						t.Fatalf("%s, %d ranks, %d bytes: %v", prog.Name, n, size, err)
					}
					rows = append(rows, planTime{prog.Name, n, instances, int64(size), float64(slices.Max(took)) / 1e3, "cuda",
						true})
				}
			}
			data, err := json.MarshalIndent(rows, "", " ")
			if err == nil {
				err = os.WriteFile(*timesTo, append(data, '\n'), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d times in %v", len(rows), time.Since(begun))
}

// timed returns the median, over some batches of replays, of the time of an execution, by events on the stream: a host
// that waits for a GPU may sleep for a millisecond too long.
func (j *job) timed(t *testing.T, x *executor.ExecutionPlan, r int, a executor.Args) (took time.Duration, err error) {
	const launches, replays, batches = 20, 3, 5
	s, err := j.devs[r].NewStream()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx := bounded(t)
	a.Stream = s
	launch := func(int) error { return x.Execute(ctx, a) }
	if err := errors.Join(launch(0), s.Synchronize(ctx)); err != nil {
		return 0, err
	}
	replay, exec, err := captured(s.(*cuda.Stream), launches, launch)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, exec.Close()) }()
	var all []time.Duration
	for b := range batches {
		if err := j.boots[r].Barrier(ctx); err != nil {
			return 0, err
		}
		begin, err := s.Record()
		if err != nil {
			return 0, err
		}
		for i := range replays {
			if err := replay(i); err != nil {
				return 0, err
			}
		}
		end, err := s.Record()
		if err != nil {
			return 0, err
		}
		if err := s.Synchronize(ctx); err != nil {
			return 0, err
		}
		seconds, err := end.Since(begin)
		if err := errors.Join(err, begin.Close(), end.Close()); err != nil {
			return 0, err
		}
		if b > 0 { // the first replay of a graph costs more
			all = append(all, time.Duration(seconds*1e9)/(launches*replays))
		}
	}
	slices.Sort(all)
	return all[len(all)/2], j.boots[r].Barrier(ctx)
}
