package tcp

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/goccl/goccl/test/mutate"
)

func FuzzHeader(f *testing.F) {
	var b [headerSize]byte
	(&header{op: opWrite, length: 9, region: 1, offset: 2, value: 3}).put(&b)
	f.Add(b[:])
	mutate.Fuzz(f, func(t *testing.T, in []byte) {
		var b, again [headerSize]byte
		copy(b[:], in)
		h, err := parseHeader(&b)
		if err != nil {
			return
		}
		if h.length > maxPayload || h.op == 0 || h.op >= numOps {
			t.Fatalf("%+v", h)
		}
		if h.put(&again); again != b {
			t.Fatalf("%x becomes %x", b, again)
		}
	})
}

// Whatever frames an authenticated peer sends, the guard bytes around the region do not change. The input is headers,
// each followed by as much of its claimed payload as the input has.
func FuzzSession(f *testing.F) {
	var b [headerSize]byte
	(&header{op: opStore, region: 1, offset: 8, value: 3}).put(&b)
	f.Add(b[:])
	(&header{op: opWrite, length: 4, region: 1, offset: 60}).put(&b)
	f.Add(append(b[:], 1, 2, 3, 4, 5))
	p, all := memory(f, 4096)
	var wire []byte
	mutate.Fuzz(f, func(t *testing.T, in []byte) {
		clear(all)
		n := &Node{opt: Options{Timeout: time.Second},
			regions: map[uint64]*region{1: {mem: NewHostMemory(p.Add(1024), 64, true)}}}
		secret := &[32]byte{1}
		out, _ := ciphers(secret, nil, nil)
		wire = wire[:0]
		for k := uint64(0); len(in) >= headerSize; k++ {
			length := int(binary.LittleEndian.Uint32(in[4:]))
			wire = out.Seal(wire, k, in[:headerSize], nil)
			if in = in[headerSize:]; length > 0 && length <= len(in) {
				k++
				wire = out.Seal(wire, k, in[:length], nil)
				in = in[length:]
			}
		}
		wire = append(wire, in...)
		from, to := ciphers(secret, nil, nil)
		s := &receiver{node: n, stream: newStream(mutate.Conn(wire), time.Second, from, to)}
		_ = s.run()
		for i, v := range all {
			if v != 0 && (i < 1024 || i >= 1088) {
				t.Fatalf("byte %d outside the region was written", i)
			}
		}
	})
}
