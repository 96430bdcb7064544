// Package main is libgoccl.so, the C ABI of goccl (goccl.h): `make libgoccl` builds it with -buildmode=c-shared.
//
// The way of a call: a function of goccl.h is C (door.c). It refuses a forked or exiting process without touching Go, then calls the Go
// function of the same name with the prefix gocclgo_ (export_*.go), which catches panics, does the work in package core, and leaves the text of a failure
// with the calling thread. Only goccl_* leaves the library (libgoccl.map).
//
// Without cgo there is no such library and this is an empty program.
package main

func main() {}
