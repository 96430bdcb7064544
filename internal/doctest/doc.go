// Package doctest holds the documents to the project: the code blocks of README.md and docs/ run, links lead somewhere, and every environment variable
// and every function of NCCL has its place. It has no code of its own.
//
// A block is run when its fence says so: "```sh test" runs under bash -euo pipefail in a scratch folder with goccl on the PATH (every command
// must succeed); "```go test" is a whole program, built inside this module and run; "```c test" is a whole program for NCCL's ABI, linked with
// libnccl.so.2 and run on the host device. A block with "skip" instead of "test" needs what CI has not: it must be followed by the reason, as in
// "```sh skip: needs a GPU". A block of one of these languages without either is an error.
package doctest
