package testutil

import "testing"

// Allocations is the number of allocations of a call: the least of five measurements, since goroutines of the process,
// such as the monitor of records, allocate beside it.
func Allocations(call func()) float64 {
	least := testing.AllocsPerRun(100, call)
	for range 4 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(100, call))
	}
	return least
}
