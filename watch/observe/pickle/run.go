package pickle

import (
	"bytes"
	"encoding/binary"
	"math"
)

// widths are opcodes that a length of so many bytes follows.
var widths = map[byte]uint64{'U': 1, 'T': 4, 'C': 1, 'B': 4, 0x8e: 8, 0x8c: 1, 'X': 4, 0x8d: 8, 0x8a: 1, 0x8b: 4}

// run executes opcodes until STOP, and returns the last value.
func (r *reader) run() any {
	for r.err == nil {
		op := byte(r.number(1))
		if op == '.' {
			return r.last(1)[0]
		}
		if r.err == nil {
			r.step(op)
		}
	}
	return nil
}

func (r *reader) step(op byte) {
	switch op {
	case 0x80: // PROTO
		r.take(1)
	case 0x95: // FRAME
		r.take(8)
	case '(':
		r.push(mark{})
	case '0':
		r.last(1)
	case '1':
		r.since()
	case '2':
		r.push(top[any](r))
	case 'a':
		r.extend(r.last(1))
	case 'e', 0x90:
		r.extend(r.since())
	case 's', 'u':
		var items []any
		if op == 'u' {
			items = r.since()
		} else {
			items = r.last(2)
		}
		r.set(top[*dict](r), items)
	case 'q':
		r.put(r.number(1))
	case 'r':
		r.put(r.number(4))
	case 'p':
		r.put(r.index())
	case 0x94:
		r.put(uint64(len(r.memo)))
	case 'h':
		r.get(r.number(1))
	case 'j':
		r.get(r.number(4))
	case 'g':
		r.get(r.index())
	default:
		r.push(r.value(op))
	}
}

// value returns the value that an opcode makes.
func (r *reader) value(op byte) any {
	switch op {
	case 'N':
		return nil
	case 0x88, 0x89:
		return op == 0x88
	case 'K':
		return int64(r.number(1))
	case 'M':
		return int64(r.number(2))
	case 'J':
		return integer(r.take(4))
	case 0x8a, 0x8b:
		return integer(r.take(r.number(widths[op])))
	case 'G':
		var b [8]byte
		copy(b[:], r.take(8))
		return math.Float64frombits(binary.BigEndian.Uint64(b[:]))
	case 'I', 'L', 'F':
		return r.decimal(op)
	case 'V':
		return r.line()
	case 'U', 'T', 'X', 0x8c, 0x8d:
		return string(r.take(r.number(widths[op])))
	case 'C', 'B', 0x8e:
		return bytes.Clone(r.take(r.number(widths[op])))
	case ']', ')', 0x8f:
		return &list{}
	case 'l', 't', 0x91:
		return &list{r.since()}
	case 0x85, 0x86, 0x87:
		return &list{r.last(int(op) - 0x84)}
	case '}':
		return &dict{Dict{}}
	case 'd':
		d := &dict{Dict{}}
		r.set(d, r.since())
		return d
	}
	r.fail("opcode %#x: it is not plain data", op)
	return nil
}
