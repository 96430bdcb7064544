package cudawire

import (
	"runtime"
	"sync/atomic"

	"github.com/goccl/goccl/transport"
)

// arrivals takes what arrives from the network on the thread of the proxy, while it polls: no thread is woken, and
// two threads that send and receive small messages do not wait for each other's locks of a socket. Only the proxy calls
// it.
//
// Invariants: Polling is balanced, and the proxy does not sleep while it says that it polls, because meanwhile the port
// takes no small message by itself. One call of take is bounded, so a peer that sends without end does not keep the
// proxy from sending.
type arrivals struct {
	port       transport.Poller // nil: the port needs no help
	polls      bool
	processors int
}

// spinning is the number of proxies of this process that poll.
var spinning atomic.Int32

func arrivalsOf(port transport.Port) arrivals {
	p, _ := port.(transport.Poller)
	return arrivals{port: p, processors: runtime.GOMAXPROCS(0)}
}

// polling says whether the proxy polls from now on.
func (a *arrivals) polling(now bool) {
	if a.polls == now {
		return
	}
	delta := 1
	if a.polls = now; !now {
		delta = -1
	}
	spinning.Add(int32(delta))
	if a.port != nil {
		a.port.Polling(delta)
	}
}

// take takes arrivals if the proxy polls.
func (a *arrivals) take() {
	if a.polls && a.port != nil {
		a.port.Poll()
	}
}

// The looks of the proxy between two yields. A yield takes a lock of the scheduler, and the proxy may go on on another
// thread, which costs more than a small message. So it is rare where others have processors enough.
const (
	fewLooks  = 16
	manyLooks = 1024
)

// looks returns how many looks of the proxy come before it yields.
func (a *arrivals) looks() int {
	if 8*int(spinning.Load()) <= a.processors {
		return manyLooks
	}
	return fewLooks
}
