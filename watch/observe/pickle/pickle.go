// Package pickle reads Python pickles that hold data alone: None, bools, numbers, text, bytes, lists, tuples, sets and
// dicts, of protocols 1 to 5. It runs nothing: an opcode that names a class or a function is refused. Input is
// untrusted: memory is bounded by a multiple of its length, and depth by a constant.
package pickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Dict is a dict with keys as Python's str() writes them.
type Dict map[string]any

// damage is why a pickle cannot be read. Only Load recovers it.
type damage string

func fail(format string, args ...any) { panic(damage(fmt.Sprintf(format, args...))) }

// Load returns the value of a pickle: nil, bool, int64, float64, string, []byte, []any or Dict. An integer that needs
// more than 64 bits becomes a float64.
func Load(b []byte) (v any, err error) {
	r := &reader{in: b, memo: map[uint64]any{}, copies: 1<<16 + 16*len(b)}
	defer func() {
		switch why := recover().(type) {
		case nil:
		case damage:
			v, err = nil, fmt.Errorf("pickle: at byte %d of %d: %s", r.at, len(b), why)
		default:
			panic(why)
		}
	}()
	for op := r.take(1)[0]; op != '.'; op = r.take(1)[0] {
		r.step(op)
	}
	return r.copied(r.last(1)[0], 0), nil
}

// list is a list, a tuple, a set, or a dict, whose items are keys and values by turns. Lists are shared by reference
// until the end, as in Python.
type list struct {
	items []any
	dict  bool
}

type mark struct{}

// reader executes opcodes.
type reader struct {
	in     []byte
	at     int
	stack  []any
	memo   map[uint64]any
	copies int // that may still be made of values
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.in)-r.at) {
		fail("it ends too early")
	}
	r.at += int(n)
	return r.in[r.at-int(n) : r.at]
}

func (r *reader) push(v any) { r.stack = append(r.stack, v) }

// last takes the last n values.
func (r *reader) last(n int) []any {
	if len(r.stack) < n {
		fail("the stack is too short")
	}
	at := len(r.stack) - n
	items := slices.Clone(r.stack[at:])
	r.stack = r.stack[:at]
	return items
}

// top returns the last value, which stays.
func (r *reader) top() any {
	v := r.last(1)[0]
	r.push(v)
	return v
}

// since returns what lies above the last mark, and takes it and the mark away.
func (r *reader) since() []any {
	for n, v := range slices.Backward(r.stack) {
		if v == (mark{}) {
			return r.last(len(r.stack) - n)[1:]
		}
	}
	fail("there is no mark")
	return nil
}

// extend adds items to the list or dict that is the last value.
func (r *reader) extend(items []any, dict bool) {
	l, ok := r.top().(*list)
	if !ok || l.dict != dict || dict && len(items)%2 != 0 {
		fail("%d items for a %T", len(items), r.top())
	}
	l.items = append(l.items, items...)
}

// widths are opcodes that a number of so many bytes follows: of a length, the place of a stored value, or a value.
var widths = map[byte]uint64{'U': 1, 'T': 4, 'C': 1, 'B': 4, 0x8e: 8, 0x8c: 1, 'X': 4, 0x8d: 8, 0x8a: 1, 0x8b: 4,
	0x80: 1, 0x95: 8, 'q': 1, 'r': 4, 'h': 1, 'j': 4, 'K': 1, 'M': 2, 'J': 4, 'G': 8}

func (r *reader) step(op byte) {
	var wide [8]byte
	copy(wide[:], r.take(widths[op]))
	n := binary.LittleEndian.Uint64(wide[:])
	switch op {
	case 0x80, 0x95: // PROTO, FRAME
	case '(':
		r.push(mark{})
	case '0':
		r.last(1)
	case '1':
		r.since()
	case 'a':
		r.extend(r.last(1), false)
	case 'e', 0x90:
		r.extend(r.since(), false)
	case 's':
		r.extend(r.last(2), true)
	case 'u':
		r.extend(r.since(), true)
	case 'q', 'r':
		r.memo[n] = r.top()
	case 0x94:
		r.memo[uint64(len(r.memo))] = r.top()
	case 'h', 'j':
		v, ok := r.memo[n]
		if !ok {
			fail("a value that was not stored")
		}
		r.push(v)
	default:
		r.push(r.value(op, n))
	}
}

// value returns the value that an opcode makes.
func (r *reader) value(op byte, n uint64) any {
	switch op {
	case 'N':
		return nil
	case 0x88, 0x89:
		return op == 0x88
	case 'K', 'M':
		return int64(n)
	case 'J':
		return int64(int32(n))
	case 0x8a, 0x8b:
		return integer(r.take(n))
	case 'G':
		return math.Float64frombits(bits.ReverseBytes64(n))
	case 'I', 'L':
		return r.decimal(op)
	case 'U', 'T', 'X', 0x8c, 0x8d:
		return string(r.take(n))
	case 'C', 'B', 0x8e:
		return bytes.Clone(r.take(n))
	case ']', ')', 0x8f, '}':
		return &list{dict: op == '}'}
	case 't', 0x91:
		return &list{items: r.since()}
	case 0x85, 0x86, 0x87:
		return &list{items: r.last(int(op) - 0x84)}
	}
	fail("opcode %#x: it is not plain data", op)
	return nil
}

// decimal reads an integer in text: I with 00 and 01 for the bools, L with an L behind it.
func (r *reader) decimal(op byte) any {
	line, _, _ := bytes.Cut(r.in[r.at:], []byte("\n"))
	s := string(r.take(uint64(len(line)) + 1)[:len(line)])
	if op == 'I' && (s == "00" || s == "01") {
		return s == "01"
	}
	s = strings.TrimSuffix(s, "L")
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		fail("%v", err)
	}
	return f
}

// integer decodes a little-endian number of two's complement.
func integer(b []byte) any {
	b = slices.Clone(b)
	slices.Reverse(b)
	x := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	if x.IsInt64() {
		return x.Int64()
	}
	f, _ := x.Float64()
	return f
}

// key is a key of a dict as Python's str() writes it.
func key(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case nil:
		return "None"
	case *list:
		var parts []string
		for _, x := range v.items {
			if _, nested := x.(*list); nested {
				fail("a tuple in a tuple as a key")
			}
			parts = append(parts, key(x))
		}
		return "(" + strings.Join(parts, ", ") + ")"
	}
	fail("%T as a key", v)
	return ""
}

// deepest bounds the nesting, and with it a list that contains itself.
const deepest = 100

// copied copies a value without references. Shared values are copied again and again; the budget bounds that.
func (r *reader) copied(v any, depth int) any {
	if r.copies--; r.copies < 0 || depth > deepest {
		fail("its values are nested or repeated too much")
	}
	l, ok := v.(*list)
	switch {
	case v == mark{}:
		fail("a mark as a value")
	case !ok:
		return v
	case l.dict:
		out := Dict{}
		for i := 0; i < len(l.items); i += 2 {
			out[key(l.items[i])] = r.copied(l.items[i+1], depth+1)
		}
		return out
	}
	out := []any{}
	for _, x := range l.items {
		out = append(out, r.copied(x, depth+1))
	}
	return out
}
