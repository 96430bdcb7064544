// Package pickle reads Python pickles that hold data alone: None, bools, numbers, text, bytes, lists, tuples, sets and
// dicts, of protocols 1 to 5. It runs nothing: an opcode that names a class or a function is
// refused. Input is untrusted: memory is bounded by a multiple of its length, and depth by a constant.
package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Dict is a dict with keys as Python's str() writes them.
type Dict map[string]any

// Load returns the value of a pickle: nil, bool, int64, float64, string, []byte, []any or Dict. An integer that needs
// more than 64 bits becomes a float64.
func Load(b []byte) (any, error) {
	r := &reader{in: b, memo: map[uint64]any{}}
	v, err := r.run()
	if err != nil {
		return nil, fmt.Errorf("pickle: at byte %d of %d: %w", r.at, len(b), err)
	}
	budget := 1<<16 + 16*len(b)
	return copied(v, 0, &budget)
}

// list and dict are shared by reference until the end, as in Python.
type list struct{ items []any }
type dict struct{ items Dict }
type mark struct{}

type reader struct {
	in    []byte
	at    int
	stack []any
	memo  map[uint64]any
}

var errShort = errors.New("it ends too early")

func (r *reader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.in)-r.at) {
		return nil, errShort
	}
	b := r.in[r.at : r.at+int(n)]
	r.at += int(n)
	return b, nil
}

// number reads an unsigned number of n bytes.
func (r *reader) number(n uint64) (uint64, error) {
	b, err := r.take(n)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[:], b)
	return binary.LittleEndian.Uint64(wide[:]), nil
}

func (r *reader) line() (string, error) {
	i := strings.IndexByte(string(r.in[r.at:]), '\n')
	if i < 0 {
		return "", errShort
	}
	b, err := r.take(uint64(i + 1))
	return string(b[:i]), err
}

func (r *reader) push(v any) { r.stack = append(r.stack, v) }

func (r *reader) pop() (any, error) {
	if len(r.stack) == 0 {
		return nil, errors.New("the stack is empty")
	}
	v := r.stack[len(r.stack)-1]
	r.stack = r.stack[:len(r.stack)-1]
	return v, nil
}

// top returns the last value, which stays.
func top[T any](r *reader) (v T, err error) {
	if len(r.stack) == 0 {
		return v, errors.New("the stack is empty")
	}
	v, ok := r.stack[len(r.stack)-1].(T)
	if !ok {
		return v, fmt.Errorf("%T where %T is needed", r.stack[len(r.stack)-1], v)
	}
	return v, nil
}

// since returns what lies above the last mark, and takes it and the mark away.
func (r *reader) since() ([]any, error) {
	for i := len(r.stack) - 1; i >= 0; i-- {
		if _, ok := r.stack[i].(mark); ok {
			items := append([]any{}, r.stack[i+1:]...)
			r.stack = r.stack[:i]
			return items, nil
		}
	}
	return nil, errors.New("there is no mark")
}

func (r *reader) last(n int) ([]any, error) {
	if len(r.stack) < n {
		return nil, errors.New("the stack is too short")
	}
	items := append([]any{}, r.stack[len(r.stack)-n:]...)
	r.stack = r.stack[:len(r.stack)-n]
	return items, nil
}

func setItems(d *dict, items []any) error {
	if len(items)%2 != 0 {
		return errors.New("a key without a value")
	}
	for i := 0; i < len(items); i += 2 {
		k, err := key(items[i])
		if err != nil {
			return err
		}
		d.items[k] = items[i+1]
	}
	return nil
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
		big := new(big.Int)
		reversed := make([]byte, len(b))
		for i := range b {
			reversed[len(b)-1-i] = b[i]
		}
		big.SetBytes(reversed)
		f, _ := big.Float64()
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
