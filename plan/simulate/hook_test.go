package simulate_test

import (
	"testing"

	"github.com/goccl/goccl/plan/simulate"
	"github.com/goccl/goccl/test/plans"
)

// TestHooksOverlap: tiles that come one after the other are sent while later ones are made. The time is the caller's
// time plus the time to send the last tile, not the sum of all.
func TestHooksOverlap(t *testing.T) {
	const tiles, size = 8, 64 << 20
	p, err := plans.AllGatherTiles(4, tiles)
	if err != nil {
		t.Fatal(err)
	}
	at := func(us float64) float64 {
		m, err := simulate.NamedMachine("h200")
		if err != nil {
			t.Fatal(err)
		}
		m.Hook = us
		r, err := simulate.Run(p, m, size)
		if err != nil {
			t.Fatal(err)
		}
		return r.Micros
	}
	send := at(0)
	every := send / 2 // longer than the time to send one tile
	if got, want := at(every), every*tiles+send/tiles; got < every*tiles || got > want*1.1 {
		t.Errorf("%.0f us to send all, tiles come every %.0f us: %.0f us in all, want about %.0f", send, every, got, want)
	}
}
