package mutate

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// A mutator makes inputs of a fuzz target's arguments from seeds.
type mutator struct {
	rng   *rand.Rand
	seeds [][]any
	pool  [][]any // seeds, and inputs made from them
	input []any   // the latest
	bytes [8][]byte
}

const (
	mostPool  = 256
	mostBytes = 512 // of an argument; a longer seed keeps its length
)

func newMutator(seed uint64) *mutator { return &mutator{rng: rand.New(rand.NewPCG(seed, 71))} }

func (m *mutator) add(args []any) {
	m.seeds = append(m.seeds, args)
	m.pool = append(m.pool, args)
}

// next makes an input. Its bytes are valid until the next call.
func (m *mutator) next() []any {
	from := m.pool[m.rng.IntN(len(m.pool))]
	if m.rng.IntN(4) == 0 {
		from = m.seeds[m.rng.IntN(len(m.seeds))]
	}
	if len(m.input) != len(from) {
		m.input = make([]any, len(from))
	}
	for i, a := range from {
		m.input[i] = m.changed(a, i)
	}
	if m.rng.IntN(64) == 0 { // some inputs are a start for others
		kept := slices.Clone(m.input)
		for i, a := range kept {
			if b, ok := a.([]byte); ok {
				kept[i] = slices.Clone(b)
			}
		}
		if len(m.pool) < mostPool {
			m.pool = append(m.pool, kept)
		} else {
			m.pool[m.rng.IntN(mostPool)] = kept
		}
	}
	return m.input
}

// interesting are values at which integers of parsers turn.
var interesting = []uint64{0, 1, 2, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 511, 512, 1023, 1024, 4095, 4096,
	1<<15 - 1, 1 << 15, 1<<16 - 1, 1 << 16, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1}

func (m *mutator) integer(v uint64) uint64 {
	switch m.rng.IntN(4) {
	case 0:
		return interesting[m.rng.IntN(len(interesting))]
	case 1:
		return v + uint64(m.rng.IntN(9)) - 4
	case 2:
		return v ^ 1<<m.rng.IntN(64)
	}
	return m.rng.Uint64() >> m.rng.IntN(64)
}

// changed is argument i, of any type that f.Fuzz takes but floats, changed.
func (m *mutator) changed(a any, i int) any {
	switch v := a.(type) {
	case []byte:
		m.bytes[i] = m.mutate(append(m.bytes[i][:0], v...), m.other(i))
		return m.bytes[i]
	case string:
		return string(m.mutate([]byte(v), m.other(i)))
	case bool:
		return m.rng.IntN(2) == 0
	case uint8:
		return uint8(m.integer(uint64(v)))
	case uint16:
		return uint16(m.integer(uint64(v)))
	case uint32:
		return uint32(m.integer(uint64(v)))
	case uint64:
		return m.integer(v)
	case uint:
		return uint(m.integer(uint64(v)))
	case int8:
		return int8(m.integer(uint64(v)))
	case int16:
		return int16(m.integer(uint64(v)))
	case int32:
		return int32(m.integer(uint64(v)))
	case int64:
		return int64(m.integer(uint64(v)))
	case int:
		return int(m.integer(uint64(v)))
	}
	panic("mutate: an argument of another type")
}

// other is the bytes of another input.
func (m *mutator) other(i int) []byte {
	switch v := m.pool[m.rng.IntN(len(m.pool))][i].(type) {
	case []byte:
		return v
	case string:
		return []byte(v)
	}
	return nil
}

// mutate changes b in place or longer, one to six times.
func (m *mutator) mutate(b, other []byte) []byte {
	limit := max(mostBytes, len(b))
	for range 1 + m.rng.IntN(6) {
		b = m.once(b, other)
		b = b[:min(len(b), limit)]
	}
	return b
}

func (m *mutator) once(b, other []byte) []byte {
	if len(b) == 0 {
		for range 1 + m.rng.IntN(16) {
			b = append(b, byte(m.rng.Uint32()))
		}
		return b
	}
	at := m.rng.IntN(len(b))
	span := func() int { return 1 + m.rng.IntN(min(32, len(b)-at)) }
	switch m.rng.IntN(11) {
	case 0:
		b[at] ^= 1 << m.rng.IntN(8)
	case 1:
		b[at] = byte(m.rng.Uint32())
	case 2:
		b[at] = byte(interesting[m.rng.IntN(len(interesting))])
	case 3, 4: // an integer
		width := []int{2, 4, 8}[m.rng.IntN(3)]
		if len(b) < width {
			return b
		}
		at = min(at, len(b)-width)
		order := binary.ByteOrder(binary.LittleEndian)
		if m.rng.IntN(2) == 0 {
			order = binary.BigEndian
		}
		switch v := interesting[m.rng.IntN(len(interesting))] + uint64(m.rng.IntN(3)) - 1; width {
		case 2:
			order.PutUint16(b[at:], uint16(v))
		case 4:
			order.PutUint32(b[at:], uint32(v))
		default:
			order.PutUint64(b[at:], v)
		}
	case 5: // cut out
		return slices.Delete(b, at, at+span())
	case 6: // cut off
		return b[:at]
	case 7: // repeat
		return slices.Insert(b, at, slices.Clone(b[at:at+span()])...)
	case 8: // insert
		for range 1 + m.rng.IntN(8) {
			b = slices.Insert(b, at, byte(m.rng.Uint32()))
		}
	case 9: // exchange digits and words of a text, or anything
		b[at], b[m.rng.IntN(len(b))] = b[m.rng.IntN(len(b))], b[at]
	case 10: // a part of another input
		if len(other) > 0 {
			from := m.rng.IntN(len(other))
			part := other[from : from+1+m.rng.IntN(min(64, len(other)-from))]
			return slices.Replace(b, at, min(len(b), at+m.rng.IntN(len(part)+1)), part...)
		}
	}
	return b
}
