package perf

import (
	"math"

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
