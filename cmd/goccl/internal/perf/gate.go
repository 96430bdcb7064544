package perf

import (
	"fmt"
	"strings"

	"github.com/goccl/goccl/device"
)

// Limits are physical limits of the machine. Figures beyond them are measurement errors and are refused.
type Limits struct {
	// MinTime is the least time in seconds of an operation in which ranks wait for each other.
	MinTime float64
	// BusGBps is the bandwidth of one rank's link in one direction; 0: not known.
	BusGBps float64
	// TouchGBps is the rate at which all ranks together can write to memory or cache; 0: not known.
	TouchGBps float64
}

// linkGBps is the one-way NVLink rate by product, from NVIDIA's data sheets. A product that is not listed gets the
// fastest known rate.
var linkGBps = []struct {
	name string
	rate float64
}{
	{"H100 PCIe", 300}, {"A100", 300}, {"A800", 200}, {"H800", 200}, {"H100", 450}, {"H200", 450}, {"H20", 450},
	{"GH200", 450}, {"B100", 900},
	{"B200", 900}, {"B300", 900}, {"L40", 32}, {"L4", 32}, {"V100", 150},
}

// LimitsOf returns the limits of ranks on devices like dev. cores is the number of processors that host ranks share;
// distinct reports whether every rank has its own device.
func LimitsOf(dev device.Device, cores int, distinct bool) Limits {
	if dev.ID().Kind == device.CUDA {
		// A kernel takes at least half a microsecond, and so does a store until another GPU sees it.
		l := Limits{MinTime: 0.5e-6, BusGBps: 900}
		for _, p := range linkGBps {
			if strings.Contains(dev.Name(), p.name) {
				l.BusGBps = p.rate
				break
			}
		}
		if !distinct {
			l.BusGBps = 0
		}
		return l
	}
	// A core stores at most 64 bytes per cycle at up to 6 GHz; moving a cache line between cores takes at least 10 ns.
	return Limits{MinTime: 10e-9, TouchGBps: float64(cores) * 64 * 6}
}

// check returns the reason why a point is impossible, or "".
func (l Limits) check(g *geometry, seconds float64) string {
	if g.n < 2 || g.count == 0 {
		return ""
	}
	if seconds < l.MinTime {
		return fmt.Sprintf("%.3f µs is less than any operation between ranks can take (%.3f µs): the work did not run or "+
			"was not waited for",
			seconds*1e6, l.MinTime*1e6)
	}
	bus := float64(g.size) / seconds / 1e9 * g.kind.BusFactor(g.n)
	if l.BusGBps > 0 && bus > l.BusGBps {
		return fmt.Sprintf("busbw of %.1f GB/s is above the %.0f GB/s of the link: data did not all move", bus, l.BusGBps)
	}
	var written int64
	for r := 0; r < g.n; r++ {
		_, out := g.lengths(r)
		written += out
	}
	touch := float64(written*g.typ.Size()) / seconds / 1e9
	if l.TouchGBps > 0 && touch > l.TouchGBps {
		return fmt.Sprintf(
			"outputs written at %.1f GB/s, above the %.0f GB/s that the cores can store: data did not all move", touch,
			l.TouchGBps)
	}
	return ""
}
