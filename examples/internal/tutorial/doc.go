// Package tutorial is the scaffolding that the tutorials share, so that each main.go shows only its lesson: flags, devices, starting one process per
// rank, and launching a kernel that exists twice, as a Go function for the host device and as CUDA for a GPU.
//
// A Device is for one goroutine at a time; Close ends what was made from it.
package tutorial
