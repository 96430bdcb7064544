package dsl

import "github.com/goccl/goccl/plan"

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

	// Post returns, for a user-defined collective, the input chunks whose reduction output chunk of rank must contain in
	// the end. One input chunk means a copy, none means no constraint. The others' contents follow from the name.
	Post func(rank, chunk int) []Contribution
}

// AllReduce leaves in every rank's output the reduction of all ranks' inputs; ranks·cf chunks each.
func AllReduce(ranks, cf int, inPlace bool) Collective {
	return named(plan.AllReduce, ranks, cf, 0, inPlace)
}

// AllGather concatenates the inputs of cf chunks in rank order.
func AllGather(ranks, cf int, inPlace bool) Collective {
	return named(plan.AllGather, ranks, cf, 0, inPlace)
}

// ReduceScatter leaves at rank r the reduction of all ranks' r-th cf input chunks.
func ReduceScatter(ranks, cf int, inPlace bool) Collective {
	return named(plan.ReduceScatter, ranks, cf, 0, inPlace)
}

// AllToAll transposes: output part s of rank r is input part r of rank s.
func AllToAll(ranks, cf int, inPlace bool) Collective {
	return named(plan.AllToAll, ranks, cf, 0, inPlace)
}

// Broadcast copies root's cf input chunks to every rank's output.
func Broadcast(ranks, cf, root int, inPlace bool) Collective {
	return named(plan.Broadcast, ranks, cf, root, inPlace)
}

// Reduce leaves in root's output the reduction of all ranks' inputs of cf chunks; the outputs of the other ranks are
// unspecified.
func Reduce(ranks, cf, root int, inPlace bool) Collective {
	return named(plan.Reduce, ranks, cf, root, inPlace)
}

// SendRecv sends every rank's cf chunks to the next rank.
func SendRecv(ranks, cf int, inPlace bool) Collective {
	return named(plan.SendRecv, ranks, cf, 0, inPlace)
}

// Custom describes a user-defined collective by its postcondition.
func Custom(name string, ranks, inputChunks, outputChunks int, inPlace bool,
	post func(rank, chunk int) []Contribution) Collective {
	return Collective{Name: name, Ranks: ranks, ChunkFactor: 1, InputChunks: inputChunks, OutputChunks: outputChunks,
		InPlace: inPlace, Post: post}
}

// named describes a collective of the format: a buffer has cf chunks, or cf for every rank.
func named(name plan.Collective, ranks, cf, root int, inPlace bool) Collective {
	c := Collective{Name: string(name), Ranks: ranks, ChunkFactor: cf, InputChunks: cf, OutputChunks: cf, InPlace: inPlace,
		Root: root}
	switch name {
	case plan.AllReduce, plan.AllToAll:
		c.InputChunks, c.OutputChunks = ranks*cf, ranks*cf
	case plan.AllGather:
		c.OutputChunks *= ranks
	case plan.ReduceScatter:
		c.InputChunks *= ranks
	}
	return c
}
