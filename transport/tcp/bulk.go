package tcp

import "sync"

// bulkList holds the large puts whose packets no lane has taken yet.
type bulkList struct {
	mu   sync.Mutex
	puts []bulkPut
	dead error
}

// bulkPut is the part of a large put that no lane has taken. The frame's offsets are where that part begins.
type bulkPut struct {
	frame
	left, piece int64
}

// stripe queues a large put for all lanes; the first lane is left out if there are others.
func (p *Peer) stripe(f frame, size int64) error {
	lanes := p.lanes()
	lanes = lanes[min(1, len(lanes)-1):]
	piece := min(maxPiece, max(smallPut, (size/int64(2*len(lanes))+4095)&^4095))
	p.bulk.mu.Lock()
	err := p.bulk.dead
	if len(p.bulk.puts) > 0 {
		piece = maxPiece // the lanes have enough to do: smaller pieces would only be more system calls
	}
	f.parts = uint32((size + piece - 1) / piece)
	f.put.left.Store(int32(f.parts))
	if err == nil {
		p.bulk.puts = append(p.bulk.puts, bulkPut{f, size, piece})
	}
	p.bulk.mu.Unlock()
	if err != nil {
		return err
	}
	n := min(len(lanes), int(f.parts))
	first := int(p.turn.Add(uint32(n)))
	for i := range n { // the next lanes in turn, which have rested longest
		lanes[(first+i)%len(lanes)].wake()
	}
	return nil
}

// empty reports whether lanes have taken all packets.
func (b *bulkList) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.puts) == 0
}

// take returns the next packet of the oldest large put.
func (b *bulkList) take() (frame, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.puts) == 0 {
		return frame{}, false
	}
	q := &b.puts[0]
	f := q.frame
	n := min(q.left, q.piece)
	f.length = uint32(n)
	q.srcOff += n
	q.offset += uint64(n)
	if q.left -= n; q.left == 0 {
		b.puts[0] = bulkPut{}
		b.puts = b.puts[1:]
	}
	return f, true
}

func (b *bulkList) drain(p *Peer, err error) {
	b.mu.Lock()
	puts := b.puts
	b.puts, b.dead = nil, err
	b.mu.Unlock()
	for i := range puts {
		p.end(puts[i].put, err)
	}
}

// partials counts the packets of large puts that are still to arrive, by the number of the put.
type partials struct {
	mu   sync.Mutex
	left map[uint64]uint32
}

// arrived counts a packet of a put of several. It reports whether it was the last one.
func (t *partials) arrived(number uint64, parts uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left == nil {
		t.left = map[uint64]uint32{}
	}
	left, ok := t.left[number]
	if !ok {
		left = parts
	}
	if left--; left == 0 {
		delete(t.left, number)
		return true
	}
	t.left[number] = left
	return false
}
