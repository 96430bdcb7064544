package nvlink

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
)

// The policy of any rank that spares most holds for all.
func TestCTAPolicyOfRanks(t *testing.T) {
	t.Setenv("NCCL_CTA_POLICY", "1")
	dev := mockEngines(t, 1)[0].dev
	for other, want := range map[collective.CTAPolicy]collective.CTAPolicy{
		collective.CTAPolicyUnset: collective.CTAPolicyEfficiency,
		collective.CTAPolicyZero:  collective.CTAPolicyZero,
	} {
		boots := bootstrap.NewLocalGroup(2)
		go greet(boots[1], hello{Policy: other})
		terms, err := meetRanks(context.Background(), boots[0], dev, setting.Lenient())
		must(t, errors.Join(err, boots[0].Close(), boots[1].Close()))
		if terms.policy != want {
			t.Errorf("the other rank has %d: %d, want %d", other, terms.policy, want)
		}
	}
}

// A request's policy wins over the communicator's. Lower limits win over CTAPolicyEfficiency, upper limits over both.
func TestLimitsOfRequest(t *testing.T) {
	const def, eff, zero = collective.CTAPolicyDefault, collective.CTAPolicyEfficiency, collective.CTAPolicyZero
	for _, c := range []struct {
		own         terms
		least, most uint16
		policy      collective.CTAPolicy
		want        limits
	}{
		{terms{blocks: 64}, 0, 0, 0, limits{0, 64, 0}},
		{terms{blocks: 64}, 0, 100, 0, limits{0, 64, 0}},
		{terms{blocks: 64, least: 4}, 2, 32, 0, limits{4, 32, 0}},
		{terms{blocks: 64, least: 16}, 0, 5, 0, limits{5, 5, 0}},
		{terms{blocks: 64, policy: eff}, 0, 0, 0, limits{0, efficientBlocks, eff}},
		{terms{blocks: 64, policy: eff}, 0, 0, def, limits{0, 64, def}},
		{terms{blocks: 64, policy: zero}, 0, 0, eff, limits{0, efficientBlocks, eff}},
		{terms{blocks: 64, policy: eff}, 12, 0, 0, limits{12, 12, eff}},
		{terms{blocks: 64}, 0, 3, eff, limits{0, 3, eff}},
		{terms{blocks: 64}, 0, 0, zero, limits{0, 64, zero}},
	} {
		r := collective.Request{MinCTAs: c.least, MaxCTAs: c.most, CTAPolicy: c.policy}
		if got := c.own.limits().of(&r); got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// Kernels of a request have no more blocks than its limit, whatever the collective, size and number of ranks.
func TestNoLaunchIsWiderThanItsLimit(t *testing.T) {
	for _, n := range []int{2, 4} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			e := mockEngines(t, n)[1]
			s, mem := newStream(t, e), memory(t, e, 256<<20)
			for c := collective.AllReduce; c <= collective.Scatter; c++ {
				for _, bytes := range []int64{8, 4 << 10, 1 << 20, 48 << 20} {
					for _, most := range []uint16{1, 5, 16} {
						r := allReduce(mem, bytes/4, s)
						if c == collective.AllToAllV {
							continue // has no limits: NCCL has no call for them
						}
						r.Collective, r.Recv, r.MaxCTAs = c, mem.Add(200<<20), most
						limit := int(most)
						if c == collective.AllGather || c == collective.AllToAll || c == collective.Broadcast ||
							c == collective.Gather || c == collective.Scatter {
							limit = max(limit, 2*n-1) // messages need a block for each peer and direction, and one for the rank itself
						}
						for _, l := range launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{r})) })) {
							if int(l.Grid) > limit {
								t.Errorf("%d ranks: %v of %d bytes: %s has %d blocks, at most %d are allowed", n, c, bytes, l.Kernel, l.Grid,
									most)
							}
						}
					}
				}
			}
		})
	}
}

// With CTAPolicyEfficiency copy engines run slices from copyFrom, with CTAPolicyZero all, unless they are switched off.
// A request's policy wins.
func TestCopyEnginesByPolicy(t *testing.T) {
	const size = 2 * copyAllGatherFrom
	for _, c := range []struct {
		copies, policy string
		call           collective.CTAPolicy
		from           int64 // 0: never
	}{
		{"", "DEFAULT", 0, copyAllGatherFrom},
		{"", "EFFICIENCY", 0, copyFrom},
		{"", "zero|EFFICIENCY", 0, 1},
		{"", "2", collective.CTAPolicyDefault, copyAllGatherFrom},
		{"", "", collective.CTAPolicyZero, 1},
		{"0", "ZERO", 0, 0},
	} {
		t.Setenv("GOCCL_COPY_ENGINE", c.copies)
		t.Setenv("NCCL_CTA_POLICY", c.policy)
		t.Run(c.copies+" "+c.policy, func(t *testing.T) {
			engines := mockEngines(t, 2)
			e, mem := engines[0], make([]device.Ptr, 2)
			for r, e := range engines {
				mem[r] = memory(t, e, size)
				registerWindow(t, e, mem[r], size)
			}
			s, other := newStream(t, e), memory(t, e, size)
			for _, slice := range []int64{1, copyZeroFrom, copyFrom - 1, copyFrom, copyAllGatherFrom - 1,
				copyAllGatherFrom} {
				r := moves(e, collective.AllGather, other, mem[0], slice, s)
				r.CTAPolicy = c.call
				calls := noted(t, func() { must(t, e.Enqueue(1, []collective.Request{r})) })
				if got, want := strings.Contains(kinds(calls), "copy"), c.from > 0 && slice >= c.from; got != want {
					t.Errorf("%+v: %d bytes a rank: copied %v", c, slice, got)
				}
			}
			abandon(t, e)
		})
	}
}

// The device knows which part of the GPU an operation took: the ring's blocks, or copies, and a block if barriers are
// kernels.
func TestUseOfGPU(t *testing.T) {
	engines := mockEngines(t, 2)
	e, mem := engines[0], make([]device.Ptr, 2)
	for r, e := range engines {
		mem[r] = memory(t, e, 2*copyFrom)
		registerWindow(t, e, mem[r], 2*copyFrom)
	}
	s, other := newStream(t, e), memory(t, e, 2*copyFrom)
	use := func(r collective.Request) cuda.Use {
		e.dev.TakeUse()
		must(t, e.Enqueue(1, []collective.Request{r}))
		return e.dev.TakeUse()
	}
	r := allReduce(other, copyFrom/4, s)
	r.Algorithm, r.MaxCTAs = "ring/64", 7
	if got := use(r); got != (cuda.Use{Blocks: 7}) {
		t.Errorf("a ring of 7 channels: %+v", got)
	}
	r = moves(e, collective.AllGather, other, mem[0], copyFrom, s)
	for policy, blocks := range map[collective.CTAPolicy]int{collective.CTAPolicyEfficiency: 1,
		collective.CTAPolicyZero: 0} {
		r.CTAPolicy = policy
		if got := use(r); got != (cuda.Use{Blocks: blocks, Copies: true}) {
			t.Errorf("copies with policy %v: %+v", policy, got)
		}
	}
	abandon(t, e)
}
