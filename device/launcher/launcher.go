package launcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/kernels"
)

// Config configures a Launcher.
type Config struct {
	// State is the size of Launcher.State; 0: none.
	State int64
	// Ticket is the offset in State of the ticket of the order, if it is not negative.
	Ticket int64
	// Graphs is passed to cuda.Device.NewOrder.
	Graphs cuda.GraphOrder
	// Order, if it is not nil, is an order of the owner's, which lives longer than the Launcher.
	Order *cuda.Order
	// Limit bounds each wait of a kernel; 0: no bound.
	Limit time.Duration
}

// Launcher is what the kernels of one rank need. State is zeroed at first. The owner may exchange Order.
type Launcher struct {
	Device *cuda.Device
	State  device.Allocation
	Order  *cuda.Order
	Abort  *abort.Block

	memory   *cuda.HostMemory // of Abort
	borrowed *cuda.Order      // Config.Order
	release  func() error     // of Device.Hold

	granted atomic.Bool // kernels of the user may poll the abort word
	aborted bool        // before StopWatch
	broken  error       // what the driver said when Quiesce waited

	stop    chan struct{}
	stopped atomic.Bool
	watch   sync.WaitGroup

	gate  sync.RWMutex // read-locked while Abort and Order are used from outside
	freed bool         // guarded by gate: Abort and Order are freed
	cut   bool         // guarded by gate: the result of Unfinished at that time
}

// live are the Launchers of this process: the driver's unmapping waits for the kernels of all of them.
var live = struct {
	mu sync.Mutex
	of map[*Launcher]struct{}
}{of: map[*Launcher]struct{}{}}

// Quiet reports whether no kernel of this process runs on dev, nor is enqueued, so that memory can be unmapped: the
// driver waits for all kernels of the GPU then, and keeps later ones from starting, while a kernel of ours may wait for
// another rank.
func Quiet(dev *cuda.Device) bool {
	live.mu.Lock()
	defer live.mu.Unlock()
	for l := range live.of {
		if l.Device.ID() == dev.ID() && !l.Idle() {
			return false
		}
	}
	return true
}

// New makes a Launcher.
func New(dev *cuda.Device, cfg Config) (*Launcher, error) {
	l := &Launcher{Device: dev, Order: cfg.Order, borrowed: cfg.Order, stop: make(chan struct{}), release: dev.Hold()}
	if err := l.open(&cfg); err != nil {
		return nil, errors.Join(err, l.Free())
	}
	live.mu.Lock()
	defer live.mu.Unlock()
	live.of[l] = struct{}{}
	return l, nil
}

func (l *Launcher) open(cfg *Config) (err error) {
	if err = loadAll(l.Device); err != nil {
		return err
	}
	var ticket device.Ptr
	if cfg.State > 0 {
		if l.State, err = l.Device.Alloc(cfg.State); err != nil {
			return err
		}
		if cfg.Ticket >= 0 {
			ticket = l.State.Ptr().Add(cfg.Ticket)
		}
	}
	if l.Order == nil {
		if l.Order, err = l.Device.NewOrder(ticket, cfg.Graphs); err != nil {
			return err
		}
	}
	if l.memory, err = l.Device.HostAlloc(4096); err != nil {
		return err
	}
	l.Abort = abort.At(l.memory.Pointer())
	l.Abort.Limit(cfg.Limit)
	return nil
}

// loadAll loads the groups that have a cubin for the GPU, so that none is loaded later, while a kernel waits. Others
// are loaded when they are needed, because the driver compiles them, which takes seconds.
func loadAll(dev *cuda.Device) error {
	p := dev.Properties()
	for _, group := range kernels.Groups() {
		if !kernels.Compiled(group, p.Major, p.Minor) {
			continue
		}
		if _, err := Load(dev, group); err != nil {
			return err
		}
	}
	return nil
}

// Load returns a group of kernels, which belongs to the GPU. The error of a GPU that none of its images is for wraps
// device.ErrUnsupported.
func Load(dev *cuda.Device, group string) (*cuda.Module, error) {
	p := dev.Properties()
	m, err := dev.SharedModule(group, kernels.Names(group), func() ([]byte, error) {
		return kernels.Image(group, p.Major, p.Minor)
	})
	if errors.Is(err, kernels.ErrNoImage) || errors.Is(err, kernels.ErrUnknownGroup) {
		return nil, fmt.Errorf("%w: %w", device.ErrUnsupported, err)
	}
	return m, err
}

// Block is the address of Abort for kernels of the owner, which have ended before Free.
func (l *Launcher) Block() device.Ptr { return l.memory.Ptr() }

// spareAt is where the page of Abort is not used by Abort.
const spareAt = 1024

// Spare returns a word in page-locked memory for the owner, which lives as long as Block, and its address on the GPU.
func (l *Launcher) Spare() (*atomic.Uint32, device.Ptr) {
	return (*atomic.Uint32)(unsafe.Add(l.memory.Pointer(), spareAt)), l.memory.Ptr().Add(spareAt)
}

// Grant is the address of the abort word for kernels of the user. They may poll it until Free, and after an abort for
// as long as they run: then it is not freed.
func (l *Launcher) Grant() device.Ptr {
	l.granted.Store(true)
	return l.memory.Ptr()
}

// Raise ends the waits of running and later kernels.
func (l *Launcher) Raise() {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if !l.freed {
		l.Abort.Raise(abort.Aborted)
	}
}

// Reported calls f if a kernel has given up a wait for another reason than an abort, and returns its result, else nil.
func (l *Launcher) Reported(f func(status uint32, b *abort.Block) error) error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.freed {
		return nil
	}
	if s := l.Abort.Reported.Load(); s >= abort.Timeout {
		return f(s, l.Abort)
	}
	return nil
}

// Unfinished reports whether a kernel runs, or has given up a wait, also if a graph replayed it.
func (l *Launcher) Unfinished() bool {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.freed {
		return l.cut
	}
	return l.unfinished()
}

// unfinished requires gate. An error of the driver counts as work.
func (l *Launcher) unfinished() bool {
	if l.Abort.Reported.Load() != 0 {
		return true
	}
	idle, err := l.Order.Idle()
	return err != nil || !idle
}

// Busy reports whether enqueued work has not ended.
func (l *Launcher) Busy() bool {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.freed {
		return false
	}
	idle, err := l.Order.Idle()
	return err == nil && !idle
}

// Idle reports whether all enqueued work has ended. After Free it has.
func (l *Launcher) Idle() bool {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.freed {
		return true
	}
	idle, err := l.Order.Idle()
	return err == nil && idle
}

// Passed is cuda.Order.Passed; ok is false if it is not known.
func (l *Launcher) Passed() (mark uint64, all, ok bool) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.freed {
		return 0, false, false
	}
	mark, all, err := l.Order.Passed()
	return mark, all, err == nil
}

// Raw views a structure that kernels read as bytes. It holds no Go pointers.
func Raw[T any](p *T) []byte { return plain.Bytes(p) }

// Watch calls look at intervals, on a goroutine, until it returns false or Quiesce is called.
func (l *Launcher) Watch(every time.Duration, look func() bool) {
	l.watch.Go(func() {
		t := time.Tick(every)
		for {
			select {
			case <-t:
				if !look() {
					return
				}
			case <-l.stop:
				return
			}
		}
	})
}

// quiesceLimit is how long kernels may take to end after an abort. They see it within 10 ms.
const quiesceLimit = 5 * time.Second

// Quiesce ends the watch, then the kernels. An error means that a kernel still runs: nothing may be freed.
func (l *Launcher) Quiesce() error {
	if l == nil {
		return nil
	}
	l.StopWatch()
	l.Raise()
	ctx, cancel := context.WithTimeout(context.Background(), quiesceLimit)
	defer cancel()
	err := l.Order.Wait(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("a kernel still runs, and its memory is kept: %w", err)
	}
	l.broken = err
	return nil
}

// StopWatch ends the watch.
func (l *Launcher) StopWatch() {
	if l.stopped.CompareAndSwap(false, true) {
		l.aborted = l.Abort.Abort.Load() != 0
		close(l.stop)
		l.watch.Wait()
	}
}

// Free frees everything. It comes after Quiesce, or when no kernel has run.
func (l *Launcher) Free() error {
	if l == nil {
		return nil
	}
	live.mu.Lock()
	delete(live.of, l)
	live.mu.Unlock()
	if l.Abort != nil {
		l.StopWatch()
		l.gate.Lock()
		// A borrowed order may be closed already.
		l.cut = l.Abort.Reported.Load() != 0 || l.Order != l.borrowed && l.unfinished()
		l.freed = true
		l.gate.Unlock()
	}
	errs := []error{l.broken}
	if l.memory != nil && !(l.aborted && l.granted.Load()) {
		errs = append(errs, l.memory.Close())
		l.memory = nil
	}
	if l.Order != nil && l.Order != l.borrowed {
		errs = append(errs, l.Order.Close())
	}
	return errors.Join(append(errs, device.CloseAll(l.State), l.release())...)
}
