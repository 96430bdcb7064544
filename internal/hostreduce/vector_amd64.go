package hostreduce

import "github.com/goccl/goccl/datatype"

// reduceVector does nothing yet.
func reduceVector([]byte, [][]byte, datatype.Type, datatype.Op, [8]byte, int) int { return 0 }
