package host

import "testing"

// A stream that is never empty does not grow with the operations that have run.
func TestQueueRoom(t *testing.T) {
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	q := s.(*Stream).q
	next := make(chan struct{})
	for range 4 { // of work that waits
		err = s.(*Stream).Launch("wait", 1, func(*Block) error { <-next; return nil })
	}
	for range 10000 {
		next <- struct{}{}
		err = s.(*Stream).Launch("wait", 1, func(*Block) error { <-next; return nil })
	}
	q.mu.Lock()
	room := cap(q.ops)
	q.mu.Unlock()
	close(next)
	if err != nil || room > 64 {
		t.Errorf("room for %d operations of 4: %v", room, err)
	}
	if err := s.Synchronize(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
