package perf

import (
	"fmt"
	"math"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/printable"
)

// Upper limits of arguments. Larger values are mistakes: they would exhaust memory or take days.
const (
	mostRanks  = 4096
	mostBytes  = 1 << 46
	mostTimes  = 10_000_000 // iterations, warm-up, cycles, operations in a graph
	mostOffset = 1 << 30
	mostSizes  = 10_000
)

// limits rejects numbers beyond them.
func (c *Config) limits(n int) error {
	largest := c.MaxBytes
	for _, s := range c.SizeList {
		largest = max(largest, s)
	}
	switch {
	case n > mostRanks:
		return invalid("%d ranks: at most %d: use a smaller -n", n, mostRanks)
	case largest > mostBytes:
		return invalid("messages of %d bytes: at most %d", largest, int64(mostBytes))
	case max(c.Iters, c.Warmup, c.Cycles, c.GraphOps) > mostTimes:
		return invalid("iterations, warm-up, cycles and graph operations are %d at most", mostTimes)
	case c.Offset > mostOffset:
		return invalid("an offset of %d elements: at most %d", c.Offset, mostOffset)
	case len(c.SizeList) > mostSizes:
		return invalid("%d sizes: at most %d", len(c.SizeList), mostSizes)
	case math.IsNaN(c.Factor) || math.IsInf(c.Factor, 0) || len(c.SizeList) == 0 && c.MinBytes < c.MaxBytes &&
		!(c.Factor > 1):
		return invalid("factor %g: sizes grow by it, so it must be a number above 1", c.Factor)
	case len(c.SizeList) == 0 && c.MinBytes < c.MaxBytes &&
		math.Log(float64(c.MaxBytes)/float64(max(1, c.MinBytes)))/math.Log(c.Factor) > mostSizes:
		return invalid("factor %g makes more than %d sizes of %d to %d bytes: take a larger one", c.Factor, mostSizes,
			c.MinBytes, c.MaxBytes)
	}
	return nil
}

// fits rejects buffers that exceed the memory of this host: filling them would make the kernel kill some process. local
// is the number of ranks on this host.
func (c *Config) fits(kind device.Kind, n, local int) error {
	room, ok := availableMemory()
	if kind != device.Host || !ok {
		return nil
	}
	_, largest, _ := c.points(n)
	if need := 2 * float64(largest) * float64(local); need > float64(room) {
		return invalid("%d ranks with buffers of twice %s need %.3g GB of memory; %.3g GB are free: take a smaller "+
			"--max-bytes, or fewer ranks",
			local, printable.Bytes(largest), need/1e9, float64(room)/1e9)
	}
	return nil
}

// availableMemory returns the memory that the kernel reports as available to programs.
func availableMemory() (int64, bool) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, false
	}
	m, err := fs.Meminfo()
	if err != nil || m.MemAvailableBytes == nil {
		return 0, false
	}
	return int64(*m.MemAvailableBytes), true
}

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
