package hostreduce

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/datatype"
)

// ErrArgument is wrapped by every error of Reduce.
var ErrArgument = errors.New("hostreduce: invalid argument")

// Reduce reduces the sources, all of the same length as dst, into dst with op (see the package's Arithmetic).
//
// scalar is PreMulSum's factor, an element of t in memory order; nranks is Avg's divisor. A reduction in several steps
// uses Sum for all steps of an Avg before the last, and PreMulSum only where a source is read for the first time. All
// other operators may be nested.
//
//  1. check the arguments
//  2. one source: copy it
//  3. an average whose sum may overflow: do steps 4 and 5 piece by piece (average.go)
//  4. run the vector kernel of the type and operator, if this processor has it, on whole blocks, all sources in one
//     pass
//  5. process the rest, or all, in plain Go
func Reduce(dst []byte, srcs [][]byte, t datatype.Type, op datatype.Op, scalar [8]byte, nranks int) error {
	if err := checkArguments(dst, srcs, t, op, nranks); err != nil {
		return err
	}
	if len(dst) == 0 {
		return nil
	}
	if len(srcs) == 1 && op != datatype.Avg && op != datatype.PreMulSum {
		copy(dst, srcs[0])
		return nil
	}
	if op == datatype.Avg && overflows(t) {
		average(dst, srcs, t, nranks)
		return nil
	}
	reduce(dst, srcs, reduction{t, op, scalar, nranks})
	return nil
}

// reduce is steps 4 and 5.
func reduce(dst []byte, srcs [][]byte, r reduction) {
	if done := reduceVector(dst, srcs, r); done < len(dst) {
		generic[r.t](dst, srcs, done, r)
	}
}

// Scale writes factor times each element of src to dst, rounded to t: the contribution of a rank to a PreMulSum that is
// then summed.
func Scale(dst, src []byte, t datatype.Type, factor [8]byte) error {
	one := [1][]byte{src}
	return Reduce(dst, one[:], t, datatype.PreMulSum, factor, 1)
}

func checkArguments(dst []byte, srcs [][]byte, t datatype.Type, op datatype.Op, nranks int) error {
	switch {
	case !t.Valid():
		return fmt.Errorf("%w: %v", ErrArgument, t)
	case !op.Valid():
		return fmt.Errorf("%w: %v", ErrArgument, op)
	case len(srcs) == 0:
		return fmt.Errorf("%w: there are no sources", ErrArgument)
	case op == datatype.Avg && nranks < 1:
		return fmt.Errorf("%w: an average over %d ranks", ErrArgument, nranks)
	case int64(len(dst))%t.Size() != 0:
		return fmt.Errorf("%w: %d bytes are no whole number of %v elements", ErrArgument, len(dst), t)
	}
	d, n := uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(len(dst))
	for i, s := range srcs {
		if len(s) != len(dst) {
			return fmt.Errorf("%w: source %d has %d bytes, the destination %d", ErrArgument, i, len(s), len(dst))
		}
		p := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
		if p != d && p < d+n && d < p+n {
			return fmt.Errorf("%w: source %d overlaps the destination without being it", ErrArgument, i)
		}
	}
	return nil
}
