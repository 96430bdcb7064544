package conformance

import (
	"math/rand/v2"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
)

// Collectives are those that a Case can have; Send stands for a ring of sends and receives.
var Collectives = []algorithm.Collective{algorithm.AllReduce, algorithm.AllGather, algorithm.ReduceScatter, algorithm.AllToAll, algorithm.AllToAllV,
	algorithm.AllToAllVDevice, algorithm.Broadcast, algorithm.Reduce, algorithm.Gather, algorithm.Scatter, algorithm.Send}

// Reduces reports whether the operator matters to the collective.
func Reduces(c algorithm.Collective) bool {
	return c == algorithm.AllReduce || c == algorithm.Reduce || c == algorithm.ReduceScatter
}

// Trimmed is a matrix small enough for jobs of many processes: every collective with every size, in and out of place, the types and operators
// in turn. It is the same in every process that gives the same seed.
func Trimmed(n int, seed uint64, sizes []int64) []Case {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	var out []Case
	k := rng.IntN(100)
	for _, coll := range Collectives {
		for _, size := range sizes {
			for _, inPlace := range []bool{false, true} {
				c := Case{Collective: coll, Type: datatype.Type(k % int(datatype.NumTypes)), Count: size, Root: rng.IntN(n), InPlace: inPlace, Seed: rng.Uint64()}
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
