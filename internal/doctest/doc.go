// Package doctest runs the code blocks of README.md and docs/. It has no code of its own.
//
// A block is run when its fence says so: "```sh test" runs under bash -euo pipefail in a scratch folder with goccl on the PATH (every command
// must succeed); "```go test" is a whole program, built inside this module and run. A block with "skip" instead of "test" needs what CI has not:
// it must be followed by the reason, as in "```sh skip: needs a GPU".
package doctest
