package hostreduce

import "github.com/goccl/goccl/datatype"

// Decode widens the elements of src, of a floating type of at most 32 bits, into dst.
func Decode(dst []float32, src []byte, t datatype.Type) {
	if t == datatype.Float32 {
		copy(dst, elems[float32](src, 0, len(dst)))
		return
	}
	decode(dst, src, t)
}

// Encode rounds src to nearest even into elements of such a type. The 8-bit types saturate.
func Encode(dst []byte, src []float32, t datatype.Type) {
	if t == datatype.Float32 {
		copy(elems[float32](dst, 0, len(src)), src)
		return
	}
	encode(dst, src, t)
}
