package testutil

import (
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
)

// Expected writes the reduction of hostreduce.Fill's data over all ranks.
func Expected(dst []byte, t datatype.Type, op datatype.Op, seed uint64, nranks int) error {
	srcs := make([][]byte, nranks)
	for r := range srcs {
		srcs[r] = make([]byte, len(dst))
		hostreduce.Fill(srcs[r], t, seed, r)
	}
	return hostreduce.Reduce(dst, srcs, t, op, [8]byte{}, nranks)
}
