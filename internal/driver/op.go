package driver

//go:generate go run ../../tools/driver

// op is an operation of goccl_driver_call: see tools/driver.
type op uint32

// args holds an operation's integer arguments, then its results.
type args [9]uint64

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
