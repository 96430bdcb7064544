package agreement

import (
	"bytes"
	"testing"

	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/mutate"
)

// FuzzMessage: a peer's message is refused or decodes to ranks of the job only, and the decoded value encodes to a
// message that decodes to the same value.
func FuzzMessage(f *testing.F) {
	m := message{kind: kindState, place: place{3, 1}, blames: -1, joint: 2, done: NewSet(3, 1),
		known: make([]*Contribution, 3)}
	m.known[1] = &Contribution{Excludes: NewSet(3, 2), Fine: true, Blames: 2, Nonce: 9}
	f.Add(m.encode(), uint16(3))
	m.kind = kindWithdrawn
	f.Add(m.encode(), uint16(9))
	m.kind, m.known, m.why = kindGaveUp, make([]*Contribution, 3), bootstrap.EncodeFailure(1, bootstrap.ErrTimeout)
	f.Add(m.encode(), uint16(3))
	mutate.Fuzz(f, func(t *testing.T, b []byte, n uint16) {
		size := int(n) + 1
		m, err := decode(b, size)
		if err != nil {
			return
		}
		for r, c := range m.known {
			if c != nil && (c.Blames >= size || c.Excludes.Len() > size || r >= size) {
				t.Fatalf("%+v of rank %d in a job of %d", c, r, size)
			}
		}
		once := m.encode()
		again, err := decode(once, size)
		if err != nil || !bytes.Equal(again.encode(), once) {
			t.Fatalf("% x decodes to % x (%v)", b, once, err)
		}
		_ = (&Outcome{Known: m.known}).Members()
	})
}
