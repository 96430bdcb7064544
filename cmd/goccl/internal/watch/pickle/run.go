package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// sized are opcodes that a length of so many bytes follows.
var sized = map[byte]uint64{'U': 1, 'T': 4, 'C': 1, 'B': 4, 0x8e: 8, 0x8c: 1, 'X': 4, 0x8d: 8, 0x8a: 1, 0x8b: 4}

// run executes opcodes until STOP.
func (r *reader) run() (any, error) {
	for {
		b, err := r.take(1)
		if err != nil {
			return nil, err
		}
		if b[0] == '.' {
			return r.pop()
		}
		if n := sized[b[0]]; n > 0 {
			err = r.sized(b[0], n)
		} else {
			err = r.step(b[0])
		}
		if err != nil {
			return nil, err
		}
	}
}

func (r *reader) sized(op byte, n uint64) error {
	length, err := r.number(n)
	if err != nil {
		return err
	}
	b, err := r.take(length)
	if err != nil {
		return err
	}
	switch op {
	case 'C', 'B', 0x8e:
		r.push(append([]byte{}, b...))
	case 0x8a, 0x8b:
		r.push(integer(b))
	default:
		r.push(string(b))
	}
	return nil
}

func (r *reader) step(op byte) (err error) {
	switch op {
	case 0x80: // PROTO
		_, err = r.take(1)
	case 0x95: // FRAME
		_, err = r.take(8)
	case '(':
		r.push(mark{})
	case '0':
		_, err = r.pop()
	case '1':
		_, err = r.since()
	case '2':
		var v any
		if v, err = top[any](r); err == nil {
			r.push(v)
		}
	case 'N':
		r.push(nil)
	case 0x88, 0x89:
		r.push(op == 0x88)
	case 'J', 'K', 'M', 'G', 'I', 'L', 'F':
		err = r.scalar(op)
	case 'V':
		var s string
		s, err = r.line()
		r.push(s)
	case ']', ')', 0x8f:
		r.push(&list{})
	case '}':
		r.push(&dict{Dict{}})
	case 'l', 't', 'd', 0x85, 0x86, 0x87, 0x91:
		err = r.collect(op)
	case 'a', 'e', 's', 'u', 0x90:
		err = r.add(op)
	case 'q', 'r', 'p', 0x94, 'h', 'j', 'g':
		err = r.remember(op)
	default:
		err = fmt.Errorf("opcode %#x: it is not plain data", op)
	}
	return err
}

func (r *reader) scalar(op byte) error {
	n := map[byte]uint64{'J': 4, 'K': 1, 'M': 2, 'G': 8}[op]
	if n == 0 {
		return r.decimal(op)
	}
	b, err := r.take(n)
	if err != nil {
		return err
	}
	switch op {
	case 'G':
		r.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
	case 'J':
		r.push(integer(b))
	default:
		r.push(integer(append(append([]byte{}, b...), 0)))
	}
	return nil
}

// decimal reads a number in text: I with 00 and 01 for the bools, L with an L behind it, F.
func (r *reader) decimal(op byte) error {
	s, err := r.line()
	if err != nil {
		return err
	}
	if op == 'I' && (s == "00" || s == "01") {
		r.push(s == "01")
		return nil
	}
	if op == 'L' && len(s) > 0 && s[len(s)-1] == 'L' {
		s = s[:len(s)-1]
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && op != 'F' {
		r.push(n)
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	r.push(f)
	return err
}

// collect replaces the top items of the stack by a list, tuple or dict of them.
func (r *reader) collect(op byte) error {
	var items []any
	var err error
	if op >= 0x85 && op <= 0x87 {
		items, err = r.last(int(op) - 0x84)
	} else {
		items, err = r.since()
	}
	if err != nil {
		return err
	}
	if op != 'd' {
		r.push(&list{items})
		return nil
	}
	d := &dict{Dict{}}
	r.push(d)
	return setItems(d, items)
}

// add moves the top items of the stack into the list or dict below them.
func (r *reader) add(op byte) error {
	var items []any
	var err error
	switch op {
	case 'a':
		items, err = r.last(1)
	case 's':
		items, err = r.last(2)
	default:
		items, err = r.since()
	}
	if err != nil {
		return err
	}
	if op == 's' || op == 'u' {
		d, err := top[*dict](r)
		if err != nil {
			return err
		}
		return setItems(d, items)
	}
	l, err := top[*list](r)
	if err != nil {
		return err
	}
	l.items = append(l.items, items...)
	return nil
}

// remember stores the last value under a number, or brings one back.
func (r *reader) remember(op byte) error {
	var n uint64
	var err error
	switch op {
	case 'q', 'h':
		n, err = r.number(1)
	case 'r', 'j':
		n, err = r.number(4)
	case 0x94:
		n = uint64(len(r.memo))
	default:
		var s string
		if s, err = r.line(); err == nil {
			n, err = strconv.ParseUint(s, 10, 32)
		}
	}
	if err != nil {
		return err
	}
	if op == 'h' || op == 'j' || op == 'g' {
		v, ok := r.memo[n]
		if !ok {
			return errors.New("a value that was not stored")
		}
		r.push(v)
		return nil
	}
	v, err := top[any](r)
	if err == nil {
		r.memo[n] = v
	}
	return err
}
