package tcp

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

func FuzzHeader(f *testing.F) {
	var b [headerSize]byte
	(&header{op: opWrite, length: 9, region: 1, offset: 2, value: 3}).put(&b)
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, in []byte) {
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
	f.Fuzz(func(t *testing.T, in []byte) {
		p, all := memory(t, 4096)
		n := &Node{opt: Options{Timeout: time.Second},
			regions: map[uint64]*region{1: {mem: NewHostMemory(p.Add(1024), 64, true)}}}
		x, y := net.Pipe()
		secret := &[32]byte{1}
		out, _ := ciphers(secret, nil, nil)
		go func() {
			var wire []byte
			for k := uint64(0); len(in) >= headerSize; k++ {
				length := int(binary.LittleEndian.Uint32(in[4:]))
				wire = out.Seal(wire, k, in[:headerSize], nil)
				if in = in[headerSize:]; length > 0 && length <= len(in) {
					k++
					wire = out.Seal(wire, k, in[:length], nil)
					in = in[length:]
				}
			}
			_, _ = x.Write(append(wire, in...))
			_ = x.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, x) }()
		from, to := ciphers(secret, nil, nil)
		s := &receiver{node: n, stream: newStream(y, time.Second, from, to)}
		_ = s.run()
		_ = y.Close()
		for i, v := range all {
			if v != 0 && (i < 1024 || i >= 1088) {
				t.Fatalf("byte %d outside the region was written", i)
			}
		}
	})
}
