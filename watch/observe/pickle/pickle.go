// Package pickle reads Python pickles that hold data alone: None, bools, numbers, text, bytes, lists, tuples, sets and
// dicts, of protocols 1 to 5. It runs nothing: an opcode that names a class or a function is
// refused. Input is untrusted: memory is bounded by a multiple of its length, and depth by a constant.
package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Dict is a dict with keys as Python's str() writes them.
type Dict map[string]any

// Load returns the value of a pickle: nil, bool, int64, float64, string, []byte, []any or Dict. An integer that needs
// more than 64 bits becomes a float64.
func Load(b []byte) (any, error) {
	r := &reader{in: b, memo: map[uint64]any{}}
	v := r.run()
	if r.err != nil {
		return nil, fmt.Errorf("pickle: at byte %d of %d: %w", r.at, len(b), r.err)
	}
	budget := 1<<16 + 16*len(b)
	return copied(v, 0, &budget)
}

// list and dict are shared by reference until the end, as in Python.
type list struct{ items []any }
type dict struct{ items Dict }
type mark struct{}

// reader executes opcodes. After its first error it does nothing more: what its methods then return does not matter.
type reader struct {
	in    []byte
	at    int
	stack []any
	memo  map[uint64]any
	err   error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.in)-r.at) {
		r.fail("it ends too early")
		return nil
	}
	b := r.in[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

// number reads an unsigned number of n bytes.
func (r *reader) number(n uint64) uint64 {
	var wide [8]byte
	copy(wide[:], r.take(n))
	return binary.LittleEndian.Uint64(wide[:])
}

func (r *reader) line() string {
	i := bytes.IndexByte(r.in[r.at:], '\n')
	if i < 0 {
		r.fail("it ends too early")
		return ""
	}
	return string(r.take(uint64(i + 1))[:i])
}

func (r *reader) push(v any) { r.stack = append(r.stack, v) }

// last takes the last n values.
func (r *reader) last(n int) []any {
	if len(r.stack) < n {
		r.fail("the stack is too short")
		return make([]any, n)
	}
	at := len(r.stack) - n
	items := slices.Clone(r.stack[at:])
	r.stack = r.stack[:at]
	return items
}

// top returns the last value, which stays.
func top[T any](r *reader) (v T) {
	if len(r.stack) == 0 {
		r.fail("the stack is empty")
		return v
	}
	v, ok := r.stack[len(r.stack)-1].(T)
	if !ok {
		r.fail("%T where %T is needed", r.stack[len(r.stack)-1], v)
	}
	return v
}

// since returns what lies above the last mark, and takes it and the mark away.
func (r *reader) since() []any {
	for i := len(r.stack) - 1; i >= 0; i-- {
		if _, ok := r.stack[i].(mark); ok {
			items := slices.Clone(r.stack[i+1:])
			r.stack = r.stack[:i]
			return items
		}
	}
	r.fail("there is no mark")
	return nil
}

// extend appends items to the list that is the last value.
func (r *reader) extend(items []any) {
	if l := top[*list](r); r.err == nil {
		l.items = append(l.items, items...)
	}
}

// set sets items of a dict: keys and values by turns.
func (r *reader) set(d *dict, items []any) {
	if len(items)%2 != 0 {
		r.fail("a key without a value")
	}
	for i := 0; i < len(items) && r.err == nil; i += 2 {
		k, err := key(items[i])
		if err != nil {
			r.fail("%w", err)
			return
		}
		d.items[k] = items[i+1]
	}
}

// put stores the last value under a number; get brings one back.
func (r *reader) put(n uint64) { r.memo[n] = top[any](r) }

func (r *reader) get(n uint64) {
	v, ok := r.memo[n]
	if !ok {
		r.fail("a value that was not stored")
	}
	r.push(v)
}

// decimal reads a number in text: I with 00 and 01 for the bools, L with an L behind it, F.
func (r *reader) decimal(op byte) any {
	s := r.line()
	if op == 'I' && (s == "00" || s == "01") {
		return s == "01"
	}
	if op == 'L' {
		s = strings.TrimSuffix(s, "L")
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && op != 'F' {
		return n
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		r.fail("%w", err)
	}
	return f
}

// index reads the number of a stored value in text.
func (r *reader) index() uint64 {
	n, err := strconv.ParseUint(r.line(), 10, 32)
	if err != nil {
		r.fail("%w", err)
	}
	return n
}

func key(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case bool:
		return map[bool]string{true: "True", false: "False"}[v], nil
	case nil:
		return "None", nil
	case *list:
		parts := make([]string, 0, len(v.items))
		for _, x := range v.items {
			if _, nested := x.(*list); nested {
				return "", errors.New("a tuple in a tuple as a key")
			}
			k, err := key(x)
			if err != nil {
				return "", err
			}
			parts = append(parts, k)
		}
		return "(" + strings.Join(parts, ", ") + ")", nil
	}
	return "", fmt.Errorf("%T as a key", v)
}

// integer decodes a little-endian number of two's complement.
func integer(b []byte) any {
	if len(b) > 8 {
		reversed := slices.Clone(b)
		slices.Reverse(reversed)
		f, _ := new(big.Int).SetBytes(reversed).Float64()
		if b[len(b)-1]&0x80 != 0 {
			f -= math.Pow(2, float64(8*len(b)))
		}
		return f
	}
	var wide [8]byte
	if len(b) > 0 && b[len(b)-1]&0x80 != 0 {
		wide = [8]byte{255, 255, 255, 255, 255, 255, 255, 255}
	}
	copy(wide[:], b)
	return int64(binary.LittleEndian.Uint64(wide[:]))
}

// deepest bounds the nesting, and with it a list that contains itself.
const deepest = 100

// copied copies a value without references. Shared values are copied again and again; the budget bounds that.
func copied(v any, depth int, budget *int) (any, error) {
	if *budget--; *budget < 0 || depth > deepest {
		return nil, errors.New("pickle: its values are nested or repeated too much")
	}
	switch v := v.(type) {
	case *list:
		out := make([]any, 0, min(len(v.items), 1024))
		for _, x := range v.items {
			c, err := copied(x, depth+1, budget)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
		return out, nil
	case *dict:
		out := Dict{}
		for k, x := range v.items {
			c, err := copied(x, depth+1, budget)
			if err != nil {
				return nil, err
			}
			out[k] = c
		}
		return out, nil
	case mark:
		return nil, errors.New("pickle: a mark as a value")
	}
	return v, nil
}
