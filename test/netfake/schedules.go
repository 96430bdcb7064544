package netfake

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/goccl/goccl/internal/setting"
)

// SeedVariable names a variable that selects one schedule by its seed.
const SeedVariable = "GOCCL_FAKE_SEED"

// Schedules runs f with n fabrics of different seeds, or with the seed of SeedVariable. vary changes the options of a
// seed. The first schedule that fails ends the test and says how to run it again.
func Schedules(t *testing.T, n int, vary func(seed uint64, o *Options), f func(t testing.TB, fabric *Fabric)) {
	t.Helper()
	from, to := uint64(1), uint64(n)
	if s := setting.Get(SeedVariable); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s=%q: want a number", SeedVariable, s)
		}
		from, to = seed, seed
	}
	for seed := from; seed <= to; seed++ {
		opt := Options{Seed: seed}
		if vary != nil {
			vary(seed, &opt)
		}
		fabric := New(opt)
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			defer fabric.Close()
			f(t, fabric)
		})
		if !ok {
			t.Fatalf("seed %d failed: run it again with %s=%d go test -run '^%s$'", seed, SeedVariable, seed, t.Name())
		}
	}
}
