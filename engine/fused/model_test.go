package fused

import (
	"fmt"
	"testing"
)

// A model of the packets without flags: two ranks run passes one after the other, each of four steps: send to the peer,
// fill the area of the previous pass, receive, end. All interleavings are tried. A step that finds an area in a state
// that the protocol excludes is an error.
type modelRank struct{ pass, step int8 }

type model struct {
	ranks [2]modelRank
	// cell[r][a] is the pass whose packet is in area a of rank r; 0: none.
	cell [2][areas]int8
}

const modelPasses = 7

// next runs rank r's next step; ok is false if it waits or has ended.
func (m model) next(r, used int) (out model, ok bool, err error) {
	x := m.ranks[r]
	peer, pass := 1-r, x.pass+1
	area, before := int(pass)%used, (int(pass)+used-1)%used
	switch {
	case x.pass == modelPasses:
		return m, false, nil
	case x.step == 0: // send
		if old := m.cell[peer][area]; old != 0 {
			return m, false, fmt.Errorf("pass %d of rank %d overwrites the packet of pass %d", pass, r, old)
		}
		m.cell[peer][area] = pass
	case x.step == 1: // fill
		if old := m.cell[r][before]; old > x.pass {
			return m, false, fmt.Errorf("pass %d of rank %d fills over the packet of pass %d", pass, r, old)
		}
		m.cell[r][before] = 0
	case x.step == 2: // receive
		switch got := m.cell[r][area]; got {
		case 0:
			return m, false, nil
		case pass:
		default:
			return m, false, fmt.Errorf("pass %d of rank %d takes the packet of pass %d", pass, r, got)
		}
	default: // end
		m.ranks[r] = modelRank{pass, 0}
		return m, true, nil
	}
	m.ranks[r].step++
	return m, true, nil
}

// explore tries all interleavings with that many areas.
func explore(used int) (states int, err error) {
	seen, todo := map[model]bool{}, []model{{}}
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[m] {
			continue
		}
		seen[m] = true
		moved := false
		for r := range m.ranks {
			n, ok, err := m.next(r, used)
			if err != nil {
				return len(seen), err
			}
			if moved = moved || ok; ok {
				todo = append(todo, n)
			}
		}
		ended := func(r modelRank) bool { return r.pass == modelPasses }
		if !moved && !(ended(m.ranks[0]) && ended(m.ranks[1])) {
			return len(seen), fmt.Errorf("nothing can go on: %+v", m)
		}
	}
	return len(seen), nil
}

// Three areas are enough in every interleaving, and two are not.
func TestModelOfAreas(t *testing.T) {
	if n, err := explore(areas); err != nil || n < 50 {
		t.Errorf("%d states: %v", n, err)
	}
	if _, err := explore(2); err == nil {
		t.Error("two areas pass as well: the model finds nothing")
	}
}
