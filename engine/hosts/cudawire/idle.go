package cudawire

import (
	"sync/atomic"

	"github.com/goccl/goccl/internal/wait"
)

// idler asks the driver whether kernels run, for the proxy and the watch, which must not call the driver themselves: a
// call of another thread may hold the driver's lock until all kernels have ended (the first launch of a kernel loads
// it, for example), and the kernels of a wire end only if the proxy goes on.
type idler struct {
	ask    chan struct{} // has an element when an answer is wanted
	runs   atomic.Uint64 // launches so far
	rested atomic.Uint64 // the number of launches after which no kernel ran
	idle   atomic.Bool   // the latest answer, false after a launch
	asking atomic.Bool   // the driver has not answered
}

// launched is called after a launch.
func (i *idler) launched() {
	i.runs.Add(1)
	i.idle.Store(false)
}

// serve answers until stop is closed. ended reports whether no kernel runs.
func (i *idler) serve(stop <-chan struct{}, ended func() bool) {
	for {
		select {
		case <-i.ask:
		case <-stop:
			return
		}
		n := i.runs.Load()
		i.asking.Store(true)
		idle := ended()
		i.asking.Store(false)
		i.idle.Store(idle && n == i.runs.Load())
		if idle {
			i.rested.Store(n)
		}
	}
}

// quiet reports whether no kernel has run since the latest launch. If that is not known yet, it asks.
func (i *idler) quiet() bool {
	if i.rested.Load() == i.runs.Load() {
		return true
	}
	wait.Signal(i.ask)
	return false
}

// busy reports whether kernels ran at the latest answer, and asks again. A driver that does not answer counts as busy.
func (i *idler) busy() bool {
	busy := i.asking.Load() || !i.idle.Load()
	wait.Signal(i.ask)
	return busy
}
