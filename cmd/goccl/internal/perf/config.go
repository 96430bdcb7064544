package perf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goccl/goccl/datatype"
)

// Config describes a measurement; its tags are the flags of goccl perf. The zero values of Types, Ops, Factor, Cycles,
// Timeout and the pair OutOfPlace/InPlace select their defaults.
type Config struct {
	Kind  Kind            `kong:"-"`
	Types []datatype.Type `kong:"-"` // each in turn; default float32
	Ops   []datatype.Op   `kong:"-"` // for each type in turn; default sum
	Root  int             `kong:"-"`

	MinBytes int64   `type:"size" short:"b" default:"8" placeholder:"SIZE" help:"Smallest size (default 8). K, M and G are understood."`
	MaxBytes int64   `type:"size" short:"e" default:"64M" placeholder:"SIZE" help:"Largest size (default 64M); it is always measured."`
	Factor   float64 `short:"f" default:"4" help:"From one size to the next (default ${default})."`
	SizeList []int64 `name:"sizes" type:"size" placeholder:"SIZE,..." help:"These sizes, in this order, instead of a range."`
	Iters    int     `type:"count" short:"i" placeholder:"N" help:"Operations in a timed batch. Default: as many as take about 20 ms; 200 ms for processes of the host device that are more than the processors."`
	Cycles   int     `short:"c" default:"5" help:"Timed batches (default ${default})."`
	Warmup   int     `short:"w" default:"1" help:"Operations before the first batch (default ${default})."`
	Offset   int64   `short:"u" placeholder:"N" help:"Shift buffers by this many elements from their natural alignment."`

	InPlace    bool `help:"Only in place. Default: out of place and in place."`
	OutOfPlace bool `help:"Only out of place."`
	Check      bool `default:"true" negatable:"" help:"Check every element of every result (default)."`
	Isolated   bool `help:"Wait for each operation before the next, and time each."`
	GraphOps   int  `name:"graph" type:"graph" short:"G" placeholder:"OPS" help:"Capture this many operations in a CUDA graph and time its replay; auto: 200, fewer where they are long."`
	Windows    bool `help:"Register goccl's buffers as windows: large all-gathers and all-to-alls then go by copy engines."`

	Seed uint64 `kong:"-"`
	// Prune, when positive, skips a library at larger sizes after it took more than Prune times as long as the best at
	// two consecutive sizes.
	Prune float64 `kong:"-"`
	// PruneFrom is the size in bytes from which Prune applies. An algorithm with more steps is slow while latency
	// dominates, and may still be the fastest at large sizes.
	PruneFrom int64 `kong:"-"`

	Timeout time.Duration `default:"60s" help:"Bound on every wait (default ${default})."`
}

// GraphAuto, as the value of Config.GraphOps, chooses the number of operations in a graph by their time. It is 200 for
// operations of up to 125 µs, so that the time between two replays is negligible. For longer ones a graph takes 25 ms.
const GraphAuto = -1

// ErrInvalid means that a Config or Options cannot be measured.
var ErrInvalid = errors.New("invalid arguments")

// normalize fills in defaults and rejects configurations that cannot be measured with n ranks.
func (c *Config) normalize(n int) error {
	c.Factor = cmp.Or(c.Factor, 2)
	c.Cycles = cmp.Or(c.Cycles, 5)
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	if !c.OutOfPlace && !c.InPlace {
		c.OutOfPlace, c.InPlace = true, true
	}
	switch {
	case n < 1:
		return invalid("%d ranks: at least one is needed", n)
	case c.MinBytes < 0 || c.MaxBytes < c.MinBytes:
		return invalid("sizes from %d to %d bytes: the largest must not be below the smallest, nor either below 0",
			c.MinBytes, c.MaxBytes)
	case slices.ContainsFunc(c.SizeList, func(s int64) bool { return s < 0 }):
		return invalid("sizes %d: none may be below 0", c.SizeList)
	case c.Iters < 0 || c.Warmup < 0 || c.Cycles < 0 || c.GraphOps < GraphAuto || c.Offset < 0 || c.Timeout < 0:
		return invalid("iterations, warm-up, cycles, graph operations, offset and timeout may not be negative")
	case c.Prune != 0 && c.Prune < 1:
		return invalid("prune %g: a library can only be left out for being slower than another, so it is above 1", c.Prune)
	case c.Kind.HasRoot() && (c.Root < 0 || c.Root >= n):
		return invalid("root %d is not one of the %d ranks", c.Root, n)
	case !c.OutOfPlace && !c.Kind.HasInPlace():
		return invalid("%v has no in-place form", c.Kind)
	}
	if err := c.limits(n); err != nil {
		return err
	}
	for _, t := range c.Types {
		if !t.Valid() {
			return invalid("unknown element type %v", t)
		}
	}
	for _, op := range c.Ops {
		if !op.Valid() {
			return invalid("unknown reduction operator %v", op)
		}
	}
	if !c.Kind.HasRoot() {
		c.Root = -1
	}
	if len(c.Types) == 0 {
		c.Types = []datatype.Type{datatype.Float32}
	}
	if len(c.Ops) == 0 || !c.Kind.HasOp() {
		c.Ops = []datatype.Op{datatype.Sum}
	}
	return nil
}

// points lists the measured points, in order, and the size in bytes of the largest buffer. dropped are the sizes of
// SizeList that are left out because they round to 0 or to the size before.
func (c *Config) points(n int) (points []geometry, largest int64, dropped []int64) {
	sizes, end := c.SizeList, int64(-1)
	if len(sizes) == 0 {
		sizes, end = Sizes(c.MinBytes, c.MaxBytes, c.Factor), c.MaxBytes
	}
	for _, t := range c.Types {
		for _, op := range c.Ops {
			last := int64(-1)
			for _, size := range sizes {
				g := newGeometry(c.Kind, n, t, op, c.Root, size)
				if g.count == last || g.count == 0 && size > 0 && size != end {
					if len(c.SizeList) > 0 {
						dropped = append(dropped, size)
					}
					continue
				}
				last = g.count
				points = append(points, g)
				largest = max(largest, g.size) // no rank has a longer buffer
			}
		}
	}
	slices.Sort(dropped)
	return points, largest, slices.Compact(dropped)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("perf: %w: "+format, append([]any{ErrInvalid}, args...)...)
}

// Row is one measured point: one size, one library, out of place or in place.
type Row struct {
	Library string `json:"library"`
	Size    int64  `json:"size_bytes"`
	Count   int64  `json:"count"`
	Type    string `json:"type"`
	Op      string `json:"redop"` // "none" without a reduction
	Root    int    `json:"root"`  // -1 without a root
	InPlace bool   `json:"in_place"`
	// A sample is the time of an operation in one batch (isolated: of one operation) on the slowest rank. Time is the
	// median of the samples.
	Time     float64 `json:"time_us"`
	Min      float64 `json:"min_us"`
	Mean     float64 `json:"mean_us"`
	P99      float64 `json:"p99_us"`
	CPU      float64 `json:"cpu_us"` // host time to enqueue an operation on the slowest rank, median over batches
	Samples  int     `json:"samples"`
	Iters    int     `json:"iterations"`          // operations in a batch
	GraphOps int     `json:"graph_ops,omitempty"` // number of operations in a graph
	AlgBW    float64 `json:"algbw_GBps"`          // size / time, 10⁹ bytes per second
	BusBW    float64 `json:"busbw_GBps"`
	Wrong    int64   `json:"wrong"` // elements, over all ranks; -1 when not checked
	Stray    int64   `json:"stray"` // bytes changed outside of the outputs, over all ranks
	// On GPUs, of goccl: the thread blocks of an operation's widest launch on any rank, the SMs that they can be on, and
	// whether copies ran. Blocks is 0 if it is not known.
	Blocks int  `json:"blocks,omitempty"`
	SMs    int  `json:"sms,omitempty"`
	Copies bool `json:"copies,omitempty"`
	// Ratio is this library's time divided by the first library's in the same run: above 1, the first is faster. 0 for the
	// first library.
	Ratio float64 `json:"time_ratio,omitempty"`
	// Refused names the limit that the figures violate. The figures of a refused row are not results.
	Refused string `json:"refused,omitempty"`
}

// Reporter receives the results during the measurement. Only rank 0 calls its Reporter.
type Reporter interface {
	// Progress describes the current step; it may be called often.
	Progress(what string)
	// Dropped lists, before the first point, the sizes of Config.SizeList that are not measured.
	Dropped(sizes []int64)
	// Point delivers the rows of one size: every library out of place, then every library in place.
	Point(rows []Row)
}
