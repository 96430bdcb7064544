package moe

import (
	"math"
	"sync"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
)

// No operation has number 0: fresh memory holds zeros. After a SetMask each kind continues behind the highest number of
// all ranks.
func TestNumbersWrap(t *testing.T) {
	const end = math.MaxUint32
	given := []numbers{{end - 2, end - 1, 5}, {end - 1, end - 2, end - 1}}
	boots := bootstrap.NewLocalGroup(len(given))
	step := func(r int) error {
		dev, err := host.Open(r)
		if err != nil {
			return err
		}
		b, err := New(t.Context(), Config{Job: collective.Job{Bootstrap: boots[r], Device: dev}, Size: Size{Bytes: 1 << 16}})
		if err != nil {
			return err
		}
		e := b.engine.(*hostEngine)
		if e.numbers = given[r]; r == 1 {
			if a, b := e.next(kindDispatch), e.next(kindDispatch); a != end || b != 2 {
				t.Errorf("numbers %#x and %#x, want 2^32 - 1 and 2", a, b)
			}
		}
		if err := b.SetMask(t.Context(), Mask{}); err != nil {
			return err
		}
		if want := (numbers{3, 1, 6}); e.numbers != want {
			t.Errorf("rank %d: %d after SetMask, want %d", r, e.numbers, want)
		}
		return b.Close()
	}
	var there sync.WaitGroup
	for r := range given {
		there.Go(func() {
			if err := step(r); err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	there.Wait()
}
