package membership

import (
	"bytes"
	"errors"
	"testing"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/test/mutate"
)

// FuzzNotice: a notice is either rejected or decodes to exactly its bytes. It ends this rank if this rank has called
// more than the peer.
func FuzzNotice(f *testing.F) {
	f.Add((&departure{fault.ExitClosed, 3, 2, 1}).notice(false), uint64(3), uint64(1), uint64(2))
	f.Add((&departure{fault.ExitTimeout | 1<<8, 1 << 63, 0, 1}).notice(true), uint64(1), uint64(0), uint64(0))
	f.Add([]byte{noticeVersion}, uint64(0), uint64(0), uint64(0))
	mutate.Fuzz(f, func(t *testing.T, b []byte, collectives, sent, received uint64) {
		d, cut, ok := parseNotice(b, 2)
		if !ok {
			return
		}
		if again := d.notice(cut); !bytes.Equal(again, b) {
			t.Fatalf("% x means %+v, cut short %v, which is % x", b, d, cut, again)
		}
		n := &Notices{g: &Group{rank: 0, size: 2}, collectives: collectives, sent: []uint64{0, sent},
			received: []uint64{0, received}, left: make([]*departure, 2)}
		err := n.depart(1, d, cut)
		if more := cut || collectives > d.collectives || sent > d.received || received > d.sent; more != (err != nil) ||
			err != nil && !errors.As(err, new(*fault.Error)) {
			t.Fatalf("%+v, cut short %v: %v", d, cut, err)
		}
	})
}
