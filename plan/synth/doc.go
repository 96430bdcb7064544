// Package synth searches execution plans for a topology.
//
// For collectives in which the same data goes to many ranks, the search packs spanning trees (ForestColl, Zhao et al.,
// 2024), which reaches the best rate that any plan can have:
//
//  1. bound: the optimal rate, with the cut of the graph that proves that no plan is faster
//  2. scale: links as small whole numbers, for k trees per root
//  3. split: switches are removed; paths through them become links between GPUs
//  4. pack: k spanning trees per root that share the links
//  5. lower: the trees as a program of the language, in lanes of thread blocks
//
// Run tries several forms of the program in the simulator, beside the shipped programs, and returns the fastest that
// the verifier proves. The package is pure: no I/O, and it starts no goroutines; equal inputs give equal plans.
package synth
