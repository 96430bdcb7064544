package cudawire

import "testing"

// Chunks fit into slots and cover the message. All lanes carry the same number of chunks of a large message,
// unless the rounding of small chunks prevents it.
func TestChunks(t *testing.T) {
	for _, hosts := range []int{2, 17, 40, 128} {
		g := geometryOf(hosts)
		if r := 2 * g.ringBytes() * int64(hosts-1); r > mostOfRail && g.slotBytes > leastSlot {
			t.Errorf("%d hosts: %d bytes of rings", hosts, r)
		}
		for n := int64(0); n < 1<<32; n = n*5/4 + 1 {
			size, count := g.chunks(n)
			if size > g.slotBytes-header || size%16 != 0 || size*count < n || n > 0 && size*(count-1) >= n || count < 1 {
				t.Fatalf("%d hosts: %d chunks of %d bytes for %d", hosts, count, size, n)
			}
			if count > g.lanes && count%g.lanes != 0 && size > max(g.least, 2*16*count) {
				t.Fatalf("%d hosts: %d chunks of %d bytes for %d bytes on %d lanes", hosts, count, size, n, g.lanes)
			}
		}
	}
}
