// Package tutorial contains the code that the tutorials share, so that each main.go shows only its own subject: flags,
// devices, starting one process per rank, and launching a kernel that has two forms: a Go function for the host device,
// which is in main.go, and CUDA for a GPU. Programs outside of this module may import it, so a tutorial can be copied.
//
// A Device is used by one goroutine at a time; Close also ends all objects made from it.
package tutorial
