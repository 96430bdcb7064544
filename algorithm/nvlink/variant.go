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
	numProtocols                // by packets
	ring         = numProtocols // as whole lines, to the next rank: ring.go
)

func (p protocol) String() string { return [...]string{"ll", "ll128", "ring"}[p] }

// units is how many threads carry bytes of one slice as packets: P::units in the kernels.
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
	threads  int // of a block, at most; of the ring: channels
}

// channels is how many channels the ring has, at most.
func (v variant) channels() int { return v.threads }

func (v variant) String() string {
	if v.protocol == ring {
		return fmt.Sprintf("ring/%d", v.threads)
	}
	shots := "one_shot"
	if v.twoShot {
		shots = "two_shot"
	}
	return fmt.Sprintf("%s_%s/%d", shots, v.protocol, v.threads)
}

// variantNames are the names without numbers; index = numProtocols·twoShot + protocol for packets, then the ring.
var variantNames = []string{"one_shot_ll", "one_shot_ll128", "two_shot_ll", "two_shot_ll128", "ring"}

// Variants lists the algorithms of a collective that can be chosen. Collectives without any have one way for each size.
//
//	all_reduce       one_shot: everybody sends everybody everything; two_shot: slices to their owners, results back
//	reduce           the same, results to the root; two_shot: the ranks but the root own slices
//	broadcast        one_shot: messages from the root to all; two_shot: slices from the root to the others, which share them
//	all_gather, reduce_scatter, all_to_all   one exchange; from 16 MiB a rank all_gather and all_to_all go as streams where packets were chosen
//
// The ring is for large messages: whole lines carry data, to the next rank only. The number behind its slash is that of the channels, of a block each.
// Reductions of 8-bit types go by packets there, too, and reduce of 16-bit types.
func Variants(c algorithm.Collective) []string {
	switch c {
	case algorithm.AllReduce:
		return []string{"one_shot_ll", "one_shot_ll128", "two_shot_ll", "two_shot_ll128", "ring"}
	case algorithm.Reduce:
		return []string{"one_shot_ll", "one_shot_ll128", "two_shot_ll128", "ring"}
	case algorithm.Broadcast:
		return []string{"one_shot_ll128", "two_shot_ll128", "ring"}
	case algorithm.AllGather, algorithm.ReduceScatter:
		return []string{"one_shot_ll", "one_shot_ll128", "ring"}
	case algorithm.AllToAll:
		return []string{"one_shot_ll", "one_shot_ll128"}
	}
	return nil
}

// Variants lists those of the package that these ranks' links allow.
func (e *Engine) Variants(c algorithm.Collective) []string {
	return slices.DeleteFunc(Variants(c), func(name string) bool {
		v, err := parseVariant(c, name)
		return err != nil || e.table.allows(c, v) != nil
	})
}

// Table is what chooses here, for goccl tune to put measurements in.
func (e *Engine) Table() (*Table, error) { return LoadTable(e.gpu, e.size) }

// Numbers are the numbers behind the slash of an algorithm's name that are worth a try: threads of a block, or channels.
func Numbers(name string) []int {
	if name == "ring" {
		return []int{16, 32, 64, ringChannels}
	}
	return []int{64, 128, 256, 512}
}

// parseVariant reads a name of one of c's Variants, with an optional thread count behind a slash: two_shot_ll128/256.
func parseVariant(c algorithm.Collective, s string) (variant, error) {
	name, count, ok := strings.Cut(s, "/")
	names := Variants(c)
	if !slices.Contains(names, name) {
		if len(names) == 0 {
			return variant{}, fmt.Errorf("%w: no algorithm %q: %v has none to choose from", algorithm.ErrInvalidArgument, name, c)
		}
		return variant{}, fmt.Errorf("%w: no algorithm %q: %v has %s", algorithm.ErrInvalidArgument, name, c, strings.Join(names, ", "))
	}
	i := slices.Index(variantNames, name)
	v := variant{twoShot: i >= int(numProtocols), protocol: protocol(i % int(numProtocols)), threads: 256}
	least, most, step, what := 32, 512, 32, "threads"
	if name == "ring" {
		v, least, most, step, what = variant{protocol: ring, threads: ringChannels}, 8, ringChannels, 8, "channels"
	}
	if ok {
		n, err := strconv.Atoi(count)
		if err != nil || n < least || n > most || n%step != 0 {
			return variant{}, fmt.Errorf("%w: %q: %s are a multiple of %d from %d to %d", algorithm.ErrInvalidArgument, s, what, step, least, most)
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
