package conformance

import (
	"math/rand/v2"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
)

// Collectives lists the collectives of Cases; Send stands for a ring of sends and receives.
var Collectives = []collective.Collective{collective.AllReduce, collective.AllGather, collective.ReduceScatter,
	collective.AllToAll, collective.AllToAllV,
	collective.AllToAllVDevice, collective.Broadcast, collective.Reduce, collective.Gather, collective.Scatter,
	collective.Send}

// Reduces reports whether the collective depends on the operator.
func Reduces(c collective.Collective) bool {
	return c == collective.AllReduce || c == collective.Reduce || c == collective.ReduceScatter
}

// Trimmed returns a matrix that is small enough for jobs of many processes: every collective with every size, in and
// out of place, with alternating types and operators. It depends only on the arguments, so it is the same in every
// process.
func Trimmed(n int, seed uint64, sizes []int64) []Case {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	var out []Case
	k := rng.IntN(100)
	for _, coll := range Collectives {
		for _, size := range sizes {
			for _, inPlace := range []bool{false, true} {
				c := Case{Collective: coll, Type: datatype.Type(k % int(datatype.NumTypes)), Count: size, Root: rng.IntN(n),
					InPlace: inPlace, Seed: rng.Uint64()}
				if Reduces(coll) {
					c.Op = datatype.Op(rng.IntN(int(datatype.NumOps)))
				}
				c.Known = inPlace && coll == collective.AllToAllV
				if !inPlace {
					c.Shift, c.Repeat = int64(k%2), k%3
				}
				out = append(out, c)
				k++
			}
		}
	}
	return out
}
