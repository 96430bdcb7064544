//go:build !amd64

package hostreduce

import "github.com/goccl/goccl/datatype"

// reduceVector returns 0: this architecture has no vector kernels.
func reduceVector([]byte, [][]byte, datatype.Type, datatype.Op, [8]byte, int) int { return 0 }
