package hosts

import (
	"slices"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
)

// counting is a stream that counts the events that are recorded on it, and a device whose streams do.
type counting struct {
	device.Stream
	events *int
}

func (c counting) Record() (device.Event, error) {
	*c.events++
	return c.Stream.Record()
}

type countingDevice struct {
	device.Device
	events *int
}

func (c countingDevice) NewStream() (device.Stream, error) {
	s, err := c.Device.NewStream()
	return counting{s, c.events}, err
}

// Work inside the host runs beside the messages to other hosts, which stay on the caller's stream. Events take as
// long to enqueue as a small message takes: one leads to the side stream and one back.
func TestBesideTakesTwoEvents(t *testing.T) {
	plain, err := host.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	events := 0
	dev := countingDevice{plain, &events}
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	message := func(c collective.Collective, peer int) collective.Request {
		return collective.Request{Collective: c, Type: datatype.Int8, Count: 8, Send: 1 << 40, Recv: 2 << 40, Peer: peer,
			Stream: s}
	}
	pair := func(to, from int) []collective.Request {
		return []collective.Request{message(collective.Send, to), message(collective.Recv, from)}
	}
	for name, c := range map[string]struct {
		reqs   []collective.Request
		side   []bool // whether each piece of work is on the side stream
		events int
	}{
		"both":       {pair(1, 2), []bool{false, true}, 2},
		"across":     {pair(2, 3), []bool{false}, 0},
		"inside":     {pair(1, 1), []bool{false}, 0},
		"all-to-all": {[]collective.Request{message(collective.AllToAll, 0)}, []bool{false, true}, 2},
	} {
		var streams []device.Stream
		all := noted{streams: &streams}
		e := &Engine{topology: newTopology(0, []int{0, 0, 1, 1}), dev: dev, order: new(HostOrder), inPlace: true,
			local: all, wire: notedWire{noted: all}, closing: make(chan struct{})}
		e.rules = e.measured(true)
		if err := e.scratch.open(dev); err != nil {
			t.Fatal(err)
		}
		events = 0
		if err := e.run(s, 1, c.reqs); err != nil {
			t.Fatal(err)
		}
		var side []bool
		for _, used := range streams {
			side = append(side, used != s)
		}
		if !slices.Equal(side, c.side) || events != c.events {
			t.Errorf("%s: work on the side stream %v and %d events, want %v and %d", name, side, events, c.side, c.events)
		}
		if e.side != nil {
			_ = e.side.Close()
		}
		_ = e.scratch.close()
	}
}
