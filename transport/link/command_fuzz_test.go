package link

import (
	"bytes"
	"testing"

	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/test/mutate"
)

// FuzzCommand: a command and an offer of a peer are refused, or within bounds and encoded to what came.
func FuzzCommand(f *testing.F) {
	b := make([]byte, commandSize)
	copy(b, plain.Bytes(&command{op: opWrite, region: 1, offset: 2, value: 3, length: 4, writes: 5}))
	f.Add(b)
	f.Add((&offer{address: []byte("a"), ring: []byte("b"), stage: []byte("c")}).encode())
	mutate.Fuzz(f, func(t *testing.T, in []byte) {
		if len(in) == commandSize {
			if r, err := parseCommand(in); err == nil {
				out := bytes.Clone(in)
				if copy(out, plain.Bytes(&r)); !bytes.Equal(in, out) || r.length > chunk {
					t.Fatalf("% x is %+v", in, r)
				}
			}
		}
		if o, err := parseOffer(in); err == nil && !bytes.Equal(o.encode(), in) {
			t.Fatalf("% x is %+v", in, o)
		}
	})
}
