package tcp

import (
	"bytes"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/aead"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/test/mutate"
	"github.com/goccl/goccl/test/nettest"
)

// Whatever packets an authenticated peer sends, the guard bytes around the region do not change. The input is headers,
// each followed by its payload, or by what the input has of it.
func FuzzReader(f *testing.F) {
	short := &packet{kind: packetPut, length: 4, region: 1, offset: 60, parts: 1}
	f.Add(append(bytes.Clone(plain.Bytes(short)), 1, 2, 3, 4))
	f.Add(plain.Bytes(&packet{kind: packetPut, imm: 3, region: 1, value: 9, parts: 2}))
	_, all := nettest.Memory(f, 4096)
	mutate.Fuzz(f, func(t *testing.T, in []byte) {
		clear(all)
		port := &Port{opt: NetOptions{Recovery: time.Second}, regions: map[uint64]*netRegion{}}
		port.regions[1] = &netRegion{port: port, id: 1, mem: all[1024:1088]}
		p := newPeer(port)
		defer p.cancel()
		r := newReader(p.all[0], &line{})
		for len(in) > 0 {
			n := copy(r.buf[r.w:], in)
			r.w += n
			in = in[n:]
			if r.consume() != nil {
				break
			}
		}
		for i, v := range all {
			if v != 0 && (i < 1024 || i >= 1088) {
				t.Fatalf("byte %d outside the region was written", i)
			}
		}
	})
}

// Whatever a dialler sends after the handshake, it is a message that was sealed with the secret, or an error.
func FuzzStream(f *testing.F) {
	secret := &[32]byte{1}
	sealed := func(b []byte) []byte {
		out, _ := ciphers(secret, nil, nil)
		length := []byte{byte(len(b)), 0, 0, 0}
		return out.Seal(length[:4:4], 0, b, length)
	}
	f.Add(sealed(nil))
	f.Add(sealed([]byte("message")))
	mutate.Fuzz(f, func(t *testing.T, in []byte) {
		from, to := ciphers(secret, nil, nil)
		b, err := (&stream{conn: mutate.Conn(in), in: from, out: to}).receive()
		if err == nil && (len(b) > maxMessage || len(in) < lengthSize+len(b)+aead.Overhead) {
			t.Fatalf("% x is %d bytes", in, len(b))
		}
	})
}
