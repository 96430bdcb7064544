//go:build !amd64

package hostreduce

// reduceVector returns 0: this architecture has no vector kernels.
func reduceVector([]byte, [][]byte, reduction) int { return 0 }
