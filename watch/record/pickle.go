package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// tuple is a Python tuple; JSON has a list instead.
type tuple []any

// writePickle writes v in Python's pickle format, version 2. It knows the types of a torch dump.
func writePickle(w io.Writer, v any) error {
	b := bytes.NewBuffer([]byte{0x80, 2})
	if err := pickle(b, v); err != nil {
		return err
	}
	b.WriteByte('.')
	_, err := w.Write(b.Bytes())
	return err
}

func pickle(b *bytes.Buffer, v any) error {
	items := func(open, end string, list []any) error {
		b.WriteString(open)
		for _, x := range list {
			if err := pickle(b, x); err != nil {
				return err
			}
		}
		b.WriteString(end)
		return nil
	}
	switch v := v.(type) {
	case nil:
		b.WriteByte('N')
	case bool:
		b.WriteByte(map[bool]byte{true: 0x88, false: 0x89}[v])
	case int:
		return pickle(b, int64(v))
	case int64: // eight bytes, little endian, signed
		b.Write([]byte{0x8a, 8})
		b.Write(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	case float64:
		b.WriteByte('G')
		b.Write(binary.BigEndian.AppendUint64(nil, math.Float64bits(v)))
	case string:
		b.WriteByte('X')
		b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(v))))
		b.WriteString(v)
	case tuple:
		return items("(", "t", v)
	case []any:
		return items("](", "e", v)
	case map[string]any:
		var list []any
		for _, k := range slices.Sorted(maps.Keys(v)) {
			list = append(list, k, v[k])
		}
		return items("}(", "u", list)
	default:
		return fmt.Errorf("record: a pickle of %T", v)
	}
	return nil
}
