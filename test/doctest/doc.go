// Package doctest tests the documents: the code blocks of README.md and docs/ run, links have a target, and every
// environment variable and every function of NCCL is documented. It contains only tests.
//
// The fence selects how a block is run. "```sh test" runs under bash -euo pipefail in a scratch directory with goccl on
// the PATH (every command must succeed). "```go test" is a whole program, built inside this module and run. "```c test"
// is a whole program for NCCL's ABI, linked with libnccl.so.2 and run on the host device. "skip" instead of "test"
// marks a block that needs something CI lacks; the reason must follow, as in "```sh skip: needs a GPU". A block of one
// of these languages without either is an error.
package doctest
