package perf

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
)

func TestNumbers(t *testing.T) {
	for typ := datatype.Type(0); typ < datatype.NumTypes; typ++ {
		b := make([]byte, 8)
		for v := int64(0); v <= min(exact(typ), 5000); v++ {
			for _, x := range []float64{float64(v), -float64(v)} {
				if x < 0 && typ.Unsigned() {
					continue
				}
				encode(b, typ, x)
				if got := valueOf(b, typ); got != x {
					t.Fatalf("%v: %g comes back as %g", typ, x, got)
				}
			}
		}
	}
	// Every finite pattern of the small formats survives.
	for _, typ := range []datatype.Type{datatype.Float16, datatype.Bfloat16, datatype.Float8E4M3, datatype.Float8E5M2} {
		for bits := range uint16(1<<(8*typ.Size()) - 1) {
			var b, again [8]byte
			binary.LittleEndian.PutUint16(b[:], bits)
			v := valueOf(b[:], typ)
			if encode(again[:], typ, v); again != b && !math.IsNaN(v) && !math.IsInf(v, 0) {
				t.Fatalf("%v: pattern %#x becomes %#x", typ, b, again)
			}
		}
	}
}

// valueOf is the first element of b, exactly if it has at most 53 bits.
func valueOf(b []byte, typ datatype.Type) float64 {
	var word [8]byte
	copy(word[:], b[:typ.Size()])
	n := binary.LittleEndian.Uint64(word[:])
	switch typ {
	case datatype.Int8:
		return float64(int8(n))
	case datatype.Int32:
		return float64(int32(n))
	case datatype.Int64:
		return float64(int64(n))
	case datatype.Uint8, datatype.Uint32, datatype.Uint64:
		return float64(n)
	}
	return hostreduce.FloatAt(word[:], 0, typ)
}
