package nvlink

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/mockcuda"
)

// Without GOCCL_COPY_ENGINE, copy engines run slices from the sizes where they are no slower, in place or not. A rank
// with 0 disables them for all.
func TestCopyEnginesByDefault(t *testing.T) {
	for _, c := range []struct {
		value               string
		allGather, allToAll int64 // 0: never
	}{{"", copyAllGatherFrom, copyAllToAllFrom}, {"0", 0, 0}, {"1", copyFrom, copyFrom}} {
		t.Run("GOCCL_COPY_ENGINE="+c.value, func(t *testing.T) {
			t.Setenv("GOCCL_COPY_ENGINE", c.value)
			engines := mockEngines(t, 2)
			e, s, mem := engines[0], newStream(t, engines[0]), make([]device.Ptr, 2)
			for r, e := range engines {
				mem[r] = memory(t, e, 2*copyAllGatherFrom)
				registerWindow(t, e, mem[r], 2*copyAllGatherFrom)
			}
			other := memory(t, e, 2*copyAllGatherFrom)
			for coll, from := range map[collective.Collective]int64{collective.AllGather: c.allGather,
				collective.AllToAll: c.allToAll} {
				for _, slice := range []int64{copyFrom - 1, copyFrom, copyAllToAllFrom - 1, copyAllToAllFrom, copyAllGatherFrom - 1,
					copyAllGatherFrom} {
					for _, send := range []device.Ptr{other, mem[0]} { // rank 0's part, in place
						if coll == collective.AllToAll && send != other {
							continue
						}
						calls := noted(t, func() { must(t, e.Enqueue(1, []collective.Request{moves(e, coll, send, mem[0], slice, s)})) })
						if got, want := strings.Contains(kinds(calls), "copy"), from > 0 && slice >= from; got != want {
							t.Errorf("%v of %d bytes a rank, in place %v: copied %v", coll, slice, send != other, got)
						}
					}
				}
				for _, a := range e.Algorithms() {
					if a.Name == "copy_engine" && a.Collective == coll && a.Least != 2*uint64(from) {
						t.Errorf("%+v", a)
					}
				}
			}
			abandon(t, e)
		})
	}
}

// All ranks use the minimum of their copy engine modes.
func TestCopyEnginesDisagree(t *testing.T) {
	e := mockEngines(t, 1)[0]
	for i, c := range []struct {
		own   string
		other copyMode
		want  copyMode
	}{
		{"1", copyNever, copyNever}, {"1", copyLarge, copyLarge}, {"1", copyAlways, copyAlways},
		{"", copyNever, copyNever}, {"", copyLarge, copyLarge}, {"", copyAlways, copyLarge},
		{"0", copyLarge, copyNever}, {"0", copyAlways, copyNever},
	} {
		t.Setenv("GOCCL_COPY_ENGINE", c.own)
		boots := bootstrap.NewLocalGroup(2)
		go greet(boots[1], hello{Copies: c.other})
		terms, err := meetRanks(context.Background(), boots[0], e.dev, setting.Lenient())
		if terms.copies != c.want || terms.sharing != 1 || err != nil {
			t.Errorf("case %d: %+v, %v", i, terms, err)
		}
		must(t, errors.Join(boots[0].Close(), boots[1].Close()))
	}
	t.Setenv("GOCCL_COPY_ENGINE", "yes")
	_, err := New(context.Background(), Config{Job: collective.Job{Bootstrap: bootstrap.NewLocalGroup(1)[0],
		Device: e.dev}})
	if !errors.Is(err, collective.ErrInvalidArgument) || !strings.Contains(err.Error(), "GOCCL_COPY_ENGINE") {
		t.Errorf("%v", err)
	}
}

// There is no cost unless a window is registered: no streams, events or goroutines. The first window makes a side
// stream, and Close frees it.
func TestCopyEnginesCostNothing(t *testing.T) {
	type objects struct{ streams, events int }
	live := func() objects {
		var n [2]int
		for i, kind := range []int{mockcuda.Streams, mockcuda.Events} {
			v, err := driver.DeviceAttribute(0, driver.Attribute(mockcuda.CountAttribute+kind))
			must(t, err)
			n[i] = v
		}
		return objects{n[0], n[1]}
	}
	more := func(was objects) objects {
		now := live()
		return objects{now.streams - was.streams, now.events - was.events}
	}
	mockEngines(t, 2) // excludes the resources of open GPUs from the count
	t.Setenv("GOCCL_COPY_ENGINE", "0")
	was := live()
	mockEngines(t, 2)
	off := more(was)
	t.Setenv("GOCCL_COPY_ENGINE", "")
	was = live()
	engines := mockEngines(t, 2)
	if on := more(was); on != off {
		t.Errorf("two engines have %+v more with copy engines, %+v without", on, off)
	}
	for _, e := range engines {
		if e.side != nil {
			t.Error("windows are set up before there is one")
		}
	}
	for range 3 {
		for _, e := range engines {
			registerWindow(t, e, memory(t, e, 1<<20), 1<<20)
		}
	}
	if with := more(was); with.streams != off.streams+2 || with.events != off.events+4 {
		t.Errorf("two engines have %+v more with windows, %+v without", with, off)
	}
	for _, e := range engines {
		must(t, e.Close())
	}
	if left := more(was); left != (objects{}) {
		t.Errorf("%+v are left after Close", left)
	}
}
