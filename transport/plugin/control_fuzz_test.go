package plugin

import (
	"bytes"
	"testing"

	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/test/mutate"
	"github.com/goccl/goccl/transport"
)

// FuzzControl: a control message is refused, or within bounds and encoded to what came.
func FuzzControl(f *testing.F) {
	b := make([]byte, controlSize)
	copy(b, plain.Bytes(&control{kind: kindPiece, imm: 1, region: 2, offset: 3, size: 4, number: 5, pieces: 6}))
	f.Add(b)
	mutate.Fuzz(f, func(t *testing.T, in []byte) {
		if len(in) != controlSize {
			return
		}
		c, err := parseControl(in)
		if err != nil {
			return
		}
		out := bytes.Clone(in)
		if copy(out, plain.Bytes(&c)); !bytes.Equal(in, out) || c.imm >= transport.NumImmediates {
			t.Fatalf("% x is %+v", in, c)
		}
	})
}
