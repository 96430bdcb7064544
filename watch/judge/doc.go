// Package judge names the rank for which others wait, and why. There is one judge for all that goccl sees:
//
//  1. the library, whose ranks send each other their records when an operation waits (Judge, Late, Slow);
//  2. goccl watch, which sees ranks of goccl, of NCCL by libgoccl-profiler.so, and dumps of PyTorch's flight recorder
//     from outside (View).
//
// Both put their knowledge of the ranks into Reports, whose records have the form of package record. The package does
// no I/O, and its functions may be called from several goroutines.
package judge
