package hosts

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/internal/abort"
)

// noted is a local engine and a wire that note on which streams they got work.
type noted struct {
	collective.Engine
	streams *[]device.Stream
}

func (n noted) Enqueue(_ uint64, reqs []collective.Request) error {
	*n.streams = append(*n.streams, reqs[0].Stream)
	return nil
}

func (n noted) Abort(error) {}

type notedWire struct {
	wire.Wire
	noted
}

func (n notedWire) Run(s device.Stream, _ wire.Op, p *wire.Phase) error {
	*n.streams = append(*n.streams, s)
	if len(p.Sends) > 0 && p.Sends[0].Bytes == refused {
		return collective.ErrUnsupported
	}
	return nil
}

const refused = 24 // bytes of messages that the wire does not take

func (n notedWire) Connect(context.Context, []int) error { return nil }
func (n notedWire) Abort(error)                          {}

// Ranks that share the queues of a GPU use one stream for each call, and refuse what needs two kernels at once. Others
// use a stream for the host and one for the network.
func TestCrowded(t *testing.T) {
	for ranks, want := range map[int]bool{1: false, 2: false, 3: true, 4: true} {
		if got := Crowded(ranks); got != want {
			t.Errorf("%d ranks of a process on a GPU: %v", ranks, got)
		}
	}
	for _, crowded := range []bool{false, true} {
		dev, err := host.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		s, err := dev.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		var streams []device.Stream
		all := noted{streams: &streams}
		e := &Engine{topology: newTopology(0, []int{0, 0, 1, 1}), dev: dev, order: new(HostOrder), crowded: crowded,
			local: all, wire: notedWire{noted: all}, closing: make(chan struct{})}
		e.rules = e.measured(false)
		if err := e.scratch.open(dev); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if e.side != nil {
				_ = e.side.Close()
			}
			_ = errors.Join(e.scratch.close(), s.Close())
		})
		sum := collective.Request{Collective: collective.AllReduce, Type: datatype.Float32, Op: datatype.Sum,
			Count: 64 << 20, Send: 1 << 40, Recv: 2 << 40, Stream: s}
		if err := e.run(s, 1, []collective.Request{sum}); err != nil {
			t.Fatal(err)
		}
		others := 0
		for _, used := range streams {
			if used != s {
				others++
			}
		}
		if len(streams) < 6 || crowded != (others == 0) {
			t.Errorf("crowded %v: %d of %d pieces of work on other streams", crowded, others, len(streams))
		}
		message := func(c collective.Collective, peer int) collective.Request {
			return collective.Request{Collective: c, Type: datatype.Int8, Count: 8, Send: 1 << 40, Recv: 2 << 40, Peer: peer,
				Stream: s}
		}
		err = e.run(s, 2, []collective.Request{message(collective.Send, 1), message(collective.Recv, 2)})
		if crowded != errors.Is(err, collective.ErrUnsupported) || crowded && e.Err() == nil {
			t.Errorf("crowded %v: a group inside and across: %v", crowded, err)
		}
		for _, one := range []collective.Request{message(collective.Send, 1), message(collective.Recv, 2)} {
			if err := e.run(s, 3, []collective.Request{one}); err != nil {
				t.Errorf("crowded %v: a message: %v", crowded, err)
			}
		}
		e.failed, e.once = abort.Cause{}, sync.Once{}
		one := message(collective.Send, 2)
		one.Count = refused
		if err := e.run(s, 4, []collective.Request{one}); err == nil || !errors.Is(e.Ended(), err) {
			t.Errorf("crowded %v: a message that the wire refuses: %v, the engine has %v", crowded, err, e.Ended())
		}
	}
}
