package nvlink

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
)

// protocol is the way data crosses the links: see kernels/collective/protocol.cuh.
type protocol uint8

const (
	ll protocol = iota
	ll128
	lamport                     // without flags: kernels/collective/lamport.cuh
	numProtocols                // packet protocols
	ring         = numProtocols // whole lines, to the next rank: ring.go
	direct       = ring + 1     // in the users' buffers: direct.go
	stream       = direct + 1   // messages to one peer after another: p2p.go
)

func (p protocol) String() string {
	return [...]string{"ll", "ll128", "lamport", "ring", "direct", "stream"}[p]
}

// units is the number of threads that carry bytes of one slice as packets: P::units in the kernels.
func (p protocol) units(bytes int64) int64 {
	switch p {
	case ll:
		return (bytes + 7) / 8
	case lamport:
		return (bytes + 15) / 16
	}
	return (bytes + 479) / 480 * 32
}

// variant is one way to run a collective.
type variant struct {
	twoShot  bool
	protocol protocol
	threads  int // per block, at most; for ring, direct and stream: channels
}

// wide reports whether v is for large messages: its number is of channels or blocks, not of threads.
func (v variant) wide() bool { return v.protocol >= ring }

// channels is the maximum number of ring channels.
func (v variant) channels() int { return v.threads }

func (v variant) String() string {
	if v.wide() {
		return fmt.Sprintf("%v/%d", v.protocol, v.threads)
	}
	shots := "one_shot"
	if v.twoShot {
		shots = "two_shot"
	}
	return fmt.Sprintf("%s_%s/%d", shots, v.protocol, v.threads)
}

// variantNames are the names without numbers. The index is numProtocols·twoShot + protocol for packets; the others
// follow.
var variantNames = []string{"one_shot_ll", "one_shot_ll128", "one_shot_lamport", "two_shot_ll", "two_shot_ll128",
	"two_shot_lamport", "ring", "direct", "stream"}

// Variants lists the selectable algorithms of a collective. A collective without any has one fixed algorithm for each
// size.
//
//	all_reduce       one_shot: each rank sends all data to all others; two_shot: slices to owners, results back
//	                 lamport: sums of floats among 2, 4 or 8 ranks, up to 4 MiB; others by ll128
//	reduce           the same, results to the root; two_shot: all ranks except the root own slices
//	broadcast        one_shot: messages from the root to all; two_shot: the others forward slices from the root
//	all_gather, reduce_scatter, all_to_all   one exchange; from 16 MiB per rank all_gather and all_to_all use streams
//	                 instead of packets
//
// The ring is for large messages: whole lines of data, to the next rank only. The number after its slash is the number
// of channels; each channel is one block. Reductions of 8-bit types, and reduce of 16-bit types, use packets instead.
//
// direct is for large messages: ranks load from each other's send buffers, and store to each other's receive buffers,
// where all ranks have mapped them, else through their windows. The number after its slash is the number of blocks.
// Broadcasts of more than two ranks, and reduce-scatters of slices that are not multiples of 16 bytes, go round a ring
// of 32 channels instead.
//
// stream is for messages of any size, also of sends and receives, to one peer after another. The number after its slash
// is the number of channels; each channel is two blocks.
func Variants(c collective.Collective) []string {
	switch c {
	case collective.AllReduce:
		return []string{"one_shot_ll", "one_shot_ll128", "one_shot_lamport", "two_shot_ll", "two_shot_ll128",
			"two_shot_lamport", "ring", "direct"}
	case collective.Reduce:
		return []string{"one_shot_ll", "one_shot_ll128", "two_shot_ll128", "ring", "direct"}
	case collective.Broadcast:
		return []string{"one_shot_ll128", "two_shot_ll128", "ring", "direct"}
	case collective.AllGather, collective.ReduceScatter:
		return []string{"one_shot_ll", "one_shot_ll128", "ring", "direct"}
	case collective.AllToAll:
		return []string{"one_shot_ll", "one_shot_ll128", "direct"}
	case collective.Gather, collective.Scatter:
		return []string{"direct"}
	case collective.AllToAllV:
		return []string{"stream"}
	}
	return nil
}

// Variants lists the algorithms of the package's Variants that the links of these ranks allow.
func (e *Engine) Variants(c collective.Collective) []string {
	return slices.DeleteFunc(Variants(c), func(name string) bool {
		v, err := parseVariant(c, name)
		return err != nil || e.table.allows(c, v) != nil
	})
}

// Table returns the tuning table in use, so that goccl tune can add measurements to it.
func (e *Engine) Table() (*Table, error) { return LoadTable(e.tuning, e.gpu, e.size) }

// Numbers lists the numbers worth measuring after the slash of an algorithm's name: threads per block, or channels.
func Numbers(name string) []int {
	switch name {
	case "ring":
		return []int{16, 32, 64, ringChannels}
	case "direct", "stream":
		return []int{6, 8, 12, 16}
	}
	return []int{64, 128, 256, 512}
}

// parseVariant parses a name of one of c's Variants, with an optional number after a slash: two_shot_ll128/256.
func parseVariant(c collective.Collective, s string) (variant, error) {
	name, count, ok := strings.Cut(s, "/")
	names := Variants(c)
	if !slices.Contains(names, name) {
		if len(names) == 0 {
			return variant{}, fmt.Errorf("%w: no algorithm %q: %v has none to choose from", collective.ErrInvalidArgument, name,
				c)
		}
		return variant{}, fmt.Errorf("%w: no algorithm %q: %v has %s", collective.ErrInvalidArgument, name, c,
			strings.Join(names, ", "))
	}
	i := slices.Index(variantNames, name)
	v := variant{twoShot: i >= int(numProtocols), protocol: protocol(i % int(numProtocols)), threads: 256}
	least, most, step, what := 32, 512, 32, "threads"
	switch name {
	case "ring":
		v, least, most, step, what = variant{protocol: ring, threads: ringChannels}, 8, ringChannels, 8, "channels"
	case "direct":
		v, least, most, step, what = variant{protocol: direct, threads: directDefault}, 2, directBlocks, 2, "blocks"
	case "stream":
		v, least, most, step, what = variant{protocol: stream, threads: streamDefault}, 1, streamChannels, 1, "channels"
	}
	if ok {
		n, err := strconv.Atoi(count)
		if err != nil || n < least || n > most || n%step != 0 {
			return variant{}, fmt.Errorf("%w: %q: %s are a multiple of %d from %d to %d", collective.ErrInvalidArgument, s, what,
				step, least, most)
		}
		v.threads = n
	}
	return v, nil
}

// typeNames are the type names in kernel names: unsigned integers share the kernels of signed ones.
var typeNames = [datatype.NumTypes]string{
	"int8", "int8", "int32", "int32", "int64", "int64",
	"float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2",
}

// special reports whether a kernel specialized for n ranks exists: for the usual types, sum and avg, and 2, 4 or 8
// ranks.
func special(t datatype.Type, op datatype.Op, n int) bool {
	return (t == datatype.Float32 || t == datatype.Float16 || t == datatype.Bfloat16) &&
		(op == datatype.Sum || op == datatype.Avg) && (n == 2 || n == 4 || n == 8)
}
