package link

import (
	"bytes"
	"testing"

	"github.com/goccl/goccl/test/mutate"
)

// FuzzRecord: a record and an offer of a peer are refused, or within bounds and encoded to what came.
func FuzzRecord(f *testing.F) {
	b := make([]byte, recordSize)
	(&record{op: opWrite, region: 1, offset: 2, value: 3, length: 4, writes: 5}).put(b)
	f.Add(b)
	f.Add((&offer{address: []byte("a"), ring: []byte("b"), stage: []byte("c")}).encode())
	mutate.Fuzz(f, func(t *testing.T, in []byte) {
		if len(in) == recordSize {
			if r, err := parseRecord(in); err == nil {
				out := bytes.Clone(in)
				if r.put(out); !bytes.Equal(in, out) || r.length > chunk {
					t.Fatalf("% x is %+v", in, r)
				}
			}
		}
		if o, err := parseOffer(in); err == nil && !bytes.Equal(o.encode(), in) {
			t.Fatalf("% x is %+v", in, o)
		}
	})
}
