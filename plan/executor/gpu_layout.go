package executor

// What the kernels read is in zz_layout.go, from kernels/executor. An item is an operand. Of an entry, rank is the
// peer, and index, block and within are what Entry calls mine, theirs and signals.
//
//go:generate go run ../../tools/layouts

// gpuThreads is the most threads of a block.
const gpuThreads = 512
