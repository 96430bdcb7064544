// Package main is libgoccl.so, the C ABI of goccl (goccl.h): `make libgoccl` builds it with -buildmode=c-shared.
//
// Each function of goccl.h is a C function (door.c). It refuses calls of a forked or exiting process without entering
// Go. Otherwise it calls the Go function of the same name with the prefix gocclgo_ (zz_exports.go, from the headers).
// That function catches panics, calls package core, and stores the text of a failure as the calling thread's last
// error. The library exports only what the headers declare (libgoccl.map).
//
// Without cgo there is no library, and this is an empty program.
package main

func main() {}
