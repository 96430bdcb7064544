package shm_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/job/bootstrap"
)

// TestTogether runs reductions that are large enough to be shared out piece by piece, in sequence and with small ones
// in between, and compares with the definitions. A request that left a wrong count of taken pieces would break the next
// one.
func TestTogether(t *testing.T) {
	const n = 4
	rounds := 24
	if testing.Short() {
		rounds = 8
	}
	boots := bootstrap.NewLocalGroup(n)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	each(t, n, func(rank int) error {
		e, err := open(boots[rank], 64)
		if err != nil {
			return err
		}
		all, own := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, uint64(rank)+1))
		p := &pool{e: e}
		for k := range rounds {
			r := round{kind: collective.AllReduce, each: 4 * (1<<17 + all.Int64N(1<<16)), root: all.IntN(n),
				inPlace: all.IntN(2) == 0}
			switch all.IntN(4) {
			case 0:
				r.kind = collective.Reduce
			case 1:
				r.each = 4 * (1<<13 + all.Int64N(1<<13))
			}
			for range n {
				in := make([]byte, r.each)
				for i := range in {
					in[i] = byte(all.Uint32())
				}
				r.inputs, r.shareable = append(r.inputs, in), append(r.shareable, true)
			}
			if err := p.run(own, r); err != nil {
				return fmt.Errorf("round %d: %w", k, err)
			}
			if err := p.trim(own, 4); err != nil {
				return err
			}
		}
		if err := e.close(); err != nil {
			return err
		}
		return p.trim(own, 0)
	})
}
