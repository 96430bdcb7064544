// Package symmetry finds repetition in a plan: renamings of ranks and chunks under which a plan stays as it is
// (Fold), and runs of chunks that every op moves together (Coarsen). A Folded plan has the programs of one rank of each
// orbit; the renamings make the others.
//
// The package is pure. Values do not change after they are made, so many goroutines may read one.
package symmetry
