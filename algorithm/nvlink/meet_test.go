package nvlink

import (
	"context"
	"errors"
	"testing"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
)

// greet runs the set-up of a rank on the mock's GPU 1 with hello h.
func greet(b bootstrap.Bootstrap, h hello) {
	h.BusID = "0000:02:00.0"
	if _, err := helloAll(context.Background(), b, h); err == nil {
		_, _ = b.AllGather(context.Background(), []byte{byte(cuda.NVLink), byte(cuda.SameGPU)})
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
		calls := launches(noted(t, func() { must(t, e.Enqueue(1, []algorithm.Request{allReduce(mem, 4<<20, s)})) }))
		if len(calls) != 1 || calls[0].Grid != 12 {
			t.Errorf("%s: %v of %d blocks, want 12", force, names(calls), calls[0].Grid)
		}
	}
}
