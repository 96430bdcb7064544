package nvlink

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
)

// greet runs the set-up of a rank on the mock's GPU 1 with hello h.
func greet(b bootstrap.Bootstrap, h hello) {
	h.BusID = "0000:02:00.0"
	if _, err := helloAll(context.Background(), b, h); err == nil {
		row, _ := json.Marshal([]path{{Link: cuda.NVLink}, {Link: cuda.SameGPU}})
		_, _ = b.AllGather(context.Background(), row)
	}
}

// All ranks use the smallest limit of any rank, so they run the same blocks.
func TestMaxCTAs(t *testing.T) {
	t.Setenv("NCCL_MAX_CTAS", "12")
	dev := mockEngines(t, 1)[0].dev
	boots := bootstrap.NewLocalGroup(2)
	defer func() { _ = errors.Join(boots[0].Close(), boots[1].Close()) }()
	go greet(boots[1], hello{Blocks: 5})
	terms, err := meetRanks(context.Background(), boots[0], dev, setting.Lenient())
	must(t, err)
	if terms.blocks != 5 || terms.share(192) != 5 || terms.share(3) != 3 {
		t.Errorf("%+v", terms)
	}

	e := mockEngines(t, 2)[1]
	s, mem := newStream(t, e), memory(t, e, 64<<20)
	for _, force := range []string{"two_shot_ll128/512", "one_shot_ll", "ring"} {
		must(t, e.Force("all_reduce:"+force))
		calls := launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 4<<20, s)})) }))
		if len(calls) != 1 || calls[0].Grid != 12 {
			t.Errorf("%s: %v of %d blocks, want 12", force, names(calls), calls[0].Grid)
		}
	}
}

// All ranks use the largest lower limit of any rank, where each block still has work.
func TestMinCTAs(t *testing.T) {
	t.Setenv("NCCL_MIN_CTAS", "12")
	dev := mockEngines(t, 1)[0].dev
	boots := bootstrap.NewLocalGroup(2)
	defer func() { _ = errors.Join(boots[0].Close(), boots[1].Close()) }()
	go greet(boots[1], hello{Least: 40, Blocks: 30})
	terms, err := meetRanks(context.Background(), boots[0], dev, setting.Lenient())
	must(t, err)
	if terms.least != 30 {
		t.Errorf("%+v", terms)
	}
	e := mockEngines(t, 2)[1]
	s, mem := newStream(t, e), memory(t, e, 64<<20)
	grid := func(r collective.Request) int {
		calls := launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{r})) }))
		if len(calls) != 1 {
			t.Fatalf("%v", names(calls))
		}
		return int(calls[0].Grid)
	}
	for _, c := range []struct {
		algorithm   string
		count       int64 // of float32
		least, most uint16
		from, to    int
	}{
		{"one_shot_ll/512", 2048, 0, 0, 12, 40},  // 1,024 units: without a limit 2 blocks
		{"one_shot_ll/512", 2048, 32, 0, 32, 40}, // a warp each
		{"one_shot_ll/512", 2048, 0, 5, 5, 5},
		{"one_shot_ll/512", 2, 0, 0, 1, 1}, // there is no work for more
		{"ring/8", 4 << 20, 0, 0, 12, 12},
		{"ring/8", 4 << 20, 64, 0, 64, 64},
		{"ring/64", 4 << 20, 0, 7, 7, 7},
		{"ring/64", 1024, 0, 0, 1, 1},
		{"direct/8", 4 << 20, 64, 0, directBlocks, directBlocks}, // there are lines for no more
	} {
		r := allReduce(mem, c.count, s)
		r.Algorithm, r.MinCTAs, r.MaxCTAs = c.algorithm, c.least, c.most
		if got := grid(r); got < c.from || got > c.to {
			t.Errorf("%+v: %d blocks", c, got)
		}
	}
	r := allReduce(mem, 16, s)
	r.Algorithm = "quickest"
	if err := e.Enqueue(1, []collective.Request{r}); !errors.Is(err, collective.ErrInvalidArgument) {
		t.Errorf("an algorithm that does not exist: %v", err)
	}
}

// The widest launches leave SMs free, and fit on the GPU at once with two blocks of a packet kernel on each SM, three
// of a message kernel and one of a ring kernel.
func TestGridsLeaveRoom(t *testing.T) {
	for _, sms := range []int{20, 58, 108, 132, 148} {
		for n := 2; n <= maxRanks; n++ {
			t1 := terms{sharing: 1, sms: sms}
			lanes := int64(2*n - 1)
			for what, at := range map[string][2]int64{"packets": {t1.packetBlocks(2, lamportBlocks), 2},
				"packets of any number of ranks": {t1.packetBlocks(1, maxBlocks), 1}, "ring": {t1.ringBlocks(), 1},
				"messages": {lanes * int64(t1.p2pChannels(n)), 3}} {
				if at[0] < 1 || at[0] > at[1]*int64(sms-spareSMs) {
					t.Errorf("%d SMs, %d ranks: %d blocks for %s", sms, n, at[0], what)
				}
			}
		}
	}
	for sharing := 2; sharing <= 8; sharing++ { // all ranks of a GPU together
		t1 := terms{sharing: sharing, sms: 132}
		n := max(sharing, 3)
		if got := sharing * (2*n - 1) * t1.p2pChannels(n); got > 3*(132-spareSMs) {
			t.Errorf("%d ranks share a GPU: %d blocks for messages", sharing, got)
		}
	}
	if h := (terms{sharing: 1, sms: 132}); h.packetBlocks(2, maxBlocks) != maxBlocks || h.ringBlocks() != 132-spareSMs ||
		h.p2pChannels(4) != p2pChannels {
		t.Errorf("an H200: %d, %d and %d blocks", h.packetBlocks(2, maxBlocks), h.ringBlocks(), h.p2pChannels(4))
	}
}

// With what leaveRoom leaves, blocks of other kernels, one on an SM, are resident together with the widest launches.
func TestLeaveRoom(t *testing.T) {
	for _, sms := range []int{20, 58, 108, 132, 148} {
		x := terms{sharing: 1, sms: sms}
		room := int64(x.leaveRoom())
		if n := x.ringBlocks() + room; n > int64(sms) || room < int64(sms)/4 {
			t.Errorf("%d SMs: %d for rings and others, %d of them for others", sms, n, room)
		}
		if n := x.packetBlocks(2, lamportBlocks) + 2*room; n > 2*int64(sms) {
			t.Errorf("%d SMs: %d halves for packets and others", sms, n)
		}
	}
}
