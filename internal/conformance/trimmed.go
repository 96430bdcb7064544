package conformance

import (
	"math/rand/v2"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
)

// Collectives lists the collectives of Cases; Send stands for a ring of sends and receives.
var Collectives = []algorithm.Collective{algorithm.AllReduce, algorithm.AllGather, algorithm.ReduceScatter,
	algorithm.AllToAll, algorithm.AllToAllV,
	algorithm.AllToAllVDevice, algorithm.Broadcast, algorithm.Reduce, algorithm.Gather, algorithm.Scatter, algorithm.Send}

// Reduces reports whether the collective depends on the operator.
func Reduces(c algorithm.Collective) bool {
	return c == algorithm.AllReduce || c == algorithm.Reduce || c == algorithm.ReduceScatter
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
