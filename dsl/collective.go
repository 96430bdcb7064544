package dsl

// Contribution is one rank's input chunk that is a part of a result.
type Contribution struct{ Rank, Chunk int }

// Collective describes what a program must compute: the chunk counts of every rank's buffers and the final contents of
// each output chunk. A constructor makes one; Custom makes a user-defined one.
type Collective struct {
	Name                      string // as in a plan: allreduce, allgather, …
	Ranks                     int
	ChunkFactor               int
	InputChunks, OutputChunks int
	InPlace                   bool
	Root                      int // broadcast, reduce

	// Post returns the input chunks whose reduction output chunk of rank must contain in the end. One input chunk means
	// a copy, none means no constraint.
	Post func(rank, chunk int) []Contribution
}

// AllReduce leaves in every rank's output the reduction of all ranks' inputs; ranks·cf chunks each.
func AllReduce(ranks, cf int, inPlace bool) Collective {
	return Collective{Name: "allreduce", Ranks: ranks, ChunkFactor: cf, InputChunks: ranks * cf, OutputChunks: ranks * cf, InPlace: inPlace,
		Post: func(_, chunk int) []Contribution { return fromAll(ranks, chunk) }}
}

// AllGather concatenates the inputs of cf chunks in rank order.
func AllGather(ranks, cf int, inPlace bool) Collective {
	return Collective{Name: "allgather", Ranks: ranks, ChunkFactor: cf, InputChunks: cf, OutputChunks: ranks * cf, InPlace: inPlace,
		Post: func(_, chunk int) []Contribution { return []Contribution{{chunk / cf, chunk % cf}} }}
}

// ReduceScatter leaves at rank r the reduction of all ranks' r-th cf input chunks.
func ReduceScatter(ranks, cf int, inPlace bool) Collective {
	return Collective{Name: "reducescatter", Ranks: ranks, ChunkFactor: cf, InputChunks: ranks * cf, OutputChunks: cf, InPlace: inPlace,
		Post: func(rank, chunk int) []Contribution { return fromAll(ranks, rank*cf+chunk) }}
}

// AllToAll transposes: output part s of rank r is input part r of rank s.
func AllToAll(ranks, cf int, inPlace bool) Collective {
	return Collective{Name: "alltoall", Ranks: ranks, ChunkFactor: cf, InputChunks: ranks * cf, OutputChunks: ranks * cf, InPlace: inPlace,
		Post: func(rank, chunk int) []Contribution { return []Contribution{{chunk / cf, rank*cf + chunk%cf}} }}
}

// Broadcast copies root's cf input chunks to every rank's output.
func Broadcast(ranks, cf, root int, inPlace bool) Collective {
	return Collective{Name: "broadcast", Ranks: ranks, ChunkFactor: cf, InputChunks: cf, OutputChunks: cf, InPlace: inPlace, Root: root,
		Post: func(_, chunk int) []Contribution { return []Contribution{{root, chunk}} }}
}

// Reduce leaves in root's output the reduction of all ranks' inputs of cf chunks; the outputs of the other ranks are
// unspecified.
func Reduce(ranks, cf, root int, inPlace bool) Collective {
	return Collective{Name: "reduce", Ranks: ranks, ChunkFactor: cf, InputChunks: cf, OutputChunks: cf, InPlace: inPlace, Root: root,
		Post: func(rank, chunk int) []Contribution {
			if rank != root {
				return nil
			}
			return fromAll(ranks, chunk)
		}}
}

// SendRecv sends every rank's cf chunks to the next rank.
func SendRecv(ranks, cf int, inPlace bool) Collective {
	return Collective{Name: "sendrecv", Ranks: ranks, ChunkFactor: cf, InputChunks: cf, OutputChunks: cf, InPlace: inPlace,
		Post: func(rank, chunk int) []Contribution { return []Contribution{{(rank + ranks - 1) % ranks, chunk}} }}
}

// Custom describes a user-defined collective by its postcondition.
func Custom(name string, ranks, inputChunks, outputChunks int, inPlace bool, post func(rank, chunk int) []Contribution) Collective {
	return Collective{Name: name, Ranks: ranks, ChunkFactor: 1, InputChunks: inputChunks, OutputChunks: outputChunks, InPlace: inPlace, Post: post}
}

func fromAll(ranks, chunk int) []Contribution {
	out := make([]Contribution, ranks)
	for r := range out {
		out[r] = Contribution{r, chunk}
	}
	return out
}
