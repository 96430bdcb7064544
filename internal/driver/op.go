package driver

import "github.com/goccl/goccl/internal/plain"

//go:generate go run ../../tools/driver

// op is an operation of goccl_driver_call: see tools/driver.
type op uint32

// args holds an operation's integer arguments, then its results.
type args [9]uint64

func b2u(b bool) uint64 { return plain.Bit[uint64](b) }
