package nvlink

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
)

// protocol is how data crosses: see kernels/collective/protocol.cuh.
type protocol uint8

const (
	ll protocol = iota
	ll128
	numProtocols
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
	threads  int // of a block, at most
}

// variantNames are the names without thread counts; index = 2·twoShot + protocol.
var variantNames = []string{"one_shot_ll", "one_shot_ll128", "two_shot_ll", "two_shot_ll128"}

// parseVariant reads a name, with an optional thread count behind a slash: two_shot_ll128/256.
func parseVariant(s string) (variant, error) {
	name, count, ok := strings.Cut(s, "/")
	i := slices.Index(variantNames, name)
	if i < 0 {
		return variant{}, fmt.Errorf("%w: no algorithm %q: there are %v", algorithm.ErrInvalidArgument, name, variantNames)
	}
	v := variant{twoShot: i >= 2, protocol: protocol(i & 1), threads: 256}
	if ok {
		n, err := strconv.Atoi(count)
		if err != nil || n < 32 || n > 512 || n%32 != 0 {
			return variant{}, fmt.Errorf("%w: %q: threads are a multiple of 32 from 32 to 512", algorithm.ErrInvalidArgument, s)
		}
		v.threads = n
	}
	return v, nil
}

// typeNames are the kernels' names of the types.
var typeNames = [datatype.NumTypes]string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"}

// special reports whether a kernel made for n ranks exists: for the usual types, sums and averages, and 2, 4 or 8 ranks.
func special(t datatype.Type, op datatype.Op, n int) bool {
	return (t == datatype.Float32 || t == datatype.Float16 || t == datatype.Bfloat16) &&
		(op == datatype.Sum || op == datatype.Avg) && (n == 2 || n == 4 || n == 8)
}
