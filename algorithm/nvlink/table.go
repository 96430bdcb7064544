package nvlink

import (
	"fmt"
	"os"
	"strings"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
)

// protocol is how data crosses: see kernels/collective/protocol.cuh.
type protocol uint8

const (
	ll protocol = iota
	ll128
)

func (p protocol) String() string { return [...]string{"ll", "ll128"}[p] }

// units is how many threads carry bytes of one slice: P::units in the kernels.
func (p protocol) units(bytes int64) int64 {
	if p == ll {
		return (bytes + 7) / 8
	}
	return (bytes + 479) / 480 * 32
}

// variant is one way to run a collective.
type variant struct {
	twoShot  bool
	protocol protocol
	threads  int
}

// name is like "two_shot_ll128", as GOCCL_ALGO takes it.
func (v variant) name() string {
	shot := "one_shot_"
	if v.twoShot {
		shot = "two_shot_"
	}
	return shot + v.protocol.String()
}

// row says: up to this many bytes (of the whole buffer), this variant.
type row struct {
	bytes int64
	variant
}

// table holds the choice for one number of ranks. Rows ascend; the last has no bound.
type table struct {
	reduce, exchange, scatter []row
	forced                    map[algorithm.Collective]string
}

const unbounded = int64(1) << 62

func loadTable(n int) (*table, error) {
	t := &table{forced: map[algorithm.Collective]string{}}
	t.reduce = []row{
		{32 << 10, variant{false, ll, 128}},
		{256 << 10, variant{true, ll, 128}},
		{unbounded, variant{true, ll128, 512}},
	}
	t.exchange = []row{{16 << 10, variant{false, ll, 128}}, {unbounded, variant{false, ll128, 512}}}
	t.scatter = []row{{16 << 10, variant{false, ll, 128}}, {unbounded, variant{false, ll128, 512}}}
	for _, f := range strings.Split(os.Getenv("GOCCL_ALGO"), ",") {
		if f == "" {
			continue
		}
		coll, name, ok := strings.Cut(f, ":")
		c, err := algorithm.ParseCollective(coll)
		if !ok || err != nil {
			return nil, fmt.Errorf("%w: GOCCL_ALGO=%q: write collective:algorithm, like all_reduce:two_shot_ll128", algorithm.ErrInvalidArgument, f)
		}
		if _, err := parseVariant(name); err != nil {
			return nil, err
		}
		t.forced[c] = name
	}
	return t, nil
}

// parseVariant reads a name, with an optional thread count behind a slash: two_shot_ll128/256.
func parseVariant(s string) (variant, error) {
	v := variant{threads: 256}
	name, threads, ok := strings.Cut(s, "/")
	if ok {
		if _, err := fmt.Sscanf(threads, "%d", &v.threads); err != nil || v.threads < 32 || v.threads > 512 || v.threads%32 != 0 {
			return v, fmt.Errorf("%w: %q: threads are a multiple of 32 from 32 to 512", algorithm.ErrInvalidArgument, s)
		}
	}
	switch name {
	case "one_shot_ll":
	case "one_shot_ll128":
		v.protocol = ll128
	case "two_shot_ll":
		v.twoShot = true
	case "two_shot_ll128":
		v.twoShot, v.protocol = true, ll128
	default:
		return v, fmt.Errorf("%w: no algorithm %q: there are one_shot_ll, one_shot_ll128, two_shot_ll, two_shot_ll128", algorithm.ErrInvalidArgument, name)
	}
	return v, nil
}

func (t *table) choose(c algorithm.Collective, rows []row, bytes int64) variant {
	if name := t.forced[c]; name != "" {
		v, _ := parseVariant(name) // checked by loadTable
		return v
	}
	for _, r := range rows {
		if bytes <= r.bytes {
			return r.variant
		}
	}
	return rows[len(rows)-1].variant
}

// typeNames are the kernels' names of the types.
var typeNames = [datatype.NumTypes]string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"}

// special reports whether a kernel made for n ranks exists: for the usual types, sums and averages, and 2, 4 or 8 ranks.
func special(t datatype.Type, op datatype.Op, n int) bool {
	return (t == datatype.Float32 || t == datatype.Float16 || t == datatype.Bfloat16) &&
		(op == datatype.Sum || op == datatype.Avg) && (n == 2 || n == 4 || n == 8)
}
