// Package kernels holds goccl's device code: CUDA C++ sources, the public device headers, and the images built from
// them.
//
// Images are built ahead of time, committed and embedded, so that only the NVIDIA driver is needed at run time. A group
// is a folder of .cu files that is compiled as one translation unit. Its images are cubins for compute capability 8.0,
// 9.0 and 10.0, and PTX for the rest. `go generate ./kernels` rebuilds the groups that have changed
// (kernels/install-nvrtc.sh fetches the pinned compiler, which needs no GPU). `go run ./tools/kernels -check`
// verifies that the committed images match the sources.
//
// Package kernels/jit compiles users' kernels at run time against the same headers, which Headers returns.
//
// Everything here is immutable and safe for concurrent use. Callers must not write to returned byte slices.
//
// # Where things are
//
//	include/goccl   the public headers, and the parts of every kernel: sync.cuh (memory order), abort.cuh (the one loop
//	                that polls), packet.cuh (LL, LL128, epochs), pipe.cuh (slots between ranks), word.cuh and copy.cuh
//	                (bytes of any alignment), reduce.cuh (types and operators), and the channels
//	collective      collectives by packets, messages between pairs, streams; the sources of ring and pcie
//	direct, ring    entry points of large messages
//	pcie            entry points of ranks without NVLink
//	hosts           messages and reductions between hosts
//	onesided        puts with a signal, and waits for signals
//	probe           whether data arrives in the memory of peers
//	executor        plans
//	primitive       signals of streams
//	bench, examples the kernels of bench/ and of examples/, which no other program embeds
//
// # Images in git
//
// Images are committed as the compiler writes them. Git packs them itself and stores a changed image as a delta of its
// last version, which it cannot do with compressed files: with those, a change of one kernel grew a clone by all images
// of its group, up to 2.8 MB. Measured now (all four images of the group, git repack -adf --window=50):
//
//	a line of the point-to-point kernels            0.07 MB
//	a line of the loop of the executor's 9 kernels  0.13 MB
//	the flow control of all 27 ring kernels         0.33 MB
//	the slow path of all packet kernels             0.63 MB
//	every kernel of every group                     6.0 MB
//
// The price is the size of a checkout (47 MB) and of a program built by the go command alone: goccl, stripped, has
// 70 MB. Compressing the committed files instead was measured: a change costs its whole group again (collective:
// 2 MB), whether a group is one block or a block per kernel.
//
// # Images in releases
//
// `make libgoccl`, `make install` and `make release` embed images that tools/kernels/pack has compressed, each image as
// one block of zstd: 46.4 MB become 6.4 MB, libgoccl.so has 20 MB instead of 58 and goccl 33 instead of 70. Image
// unpacks an image when a GPU loads it for the first time. All groups that a communicator on sm_90 loads take 18 ms of
// CPU time, 5 of them for collective (go test -bench Open ./kernels/internal/artifact). The driver keeps its own copy,
// so the unpacked one is freed.
//
// Signed and unsigned integers share kernels, so there are 201 kernels of collectives and plans instead of 234. The
// other types do not share: one kernel for all types would need the registers of the widest.
package kernels

//go:generate go run ../tools/kernels
