package sockets

import "testing"

type fake struct{ closed bool }

func (f *fake) Close() error {
	f.closed = true
	return nil
}

func TestAFullLobbyDropsTheOldestSilentConnection(t *testing.T) {
	l := NewLobby(3)
	conns := make([]*fake, 6)
	pending := make([]*Pending, 6)
	enter := func(i int) {
		conns[i] = &fake{}
		pending[i] = l.Enter(conns[i])
	}
	open := func(want ...bool) {
		t.Helper()
		for i, w := range want {
			if conns[i].closed == w {
				t.Fatalf("connection %d: closed is %v", i, conns[i].closed)
			}
		}
	}
	enter(0)
	enter(1)
	enter(2)
	pending[0].Greeted()
	enter(3) // pending 1 has sent nothing
	open(true, false, true, true)
	if pending[1].Leave() || !pending[2].Leave() {
		t.Fatal("who was dropped is in the lobby, or who was not is not")
	}
	enter(4)
	pending[3].Greeted()
	pending[4].Greeted()
	enter(5) // all have sent something: the oldest is evicted
	open(false, false, true, true, true, true)
	l.Evict() // pending 5 has sent nothing
	open(false, false, true, true, true, false)
	l.Close()
	open(false, false, true, false, false, false)
	if late := (&fake{}); l.Enter(late) != nil || !late.closed {
		t.Fatal("a closed lobby takes pending")
	}
}

func TestTally(t *testing.T) {
	var c Tally
	reports := 0
	for range 1 << 12 {
		if _, report := c.Count("a"); report {
			reports++
		}
	}
	if reports != 8+9 { // 1…8, 16, 32, … 4096
		t.Fatal(reports)
	}
	if n, report := c.Count("b"); n != 1 || !report {
		t.Fatal(n, report)
	}
}
