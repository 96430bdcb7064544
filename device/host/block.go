package host

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/internal/wait"
)

// Block identifies one "thread block" of a launch to its kernel. It must not be used after the kernel has returned.
type Block struct {
	// Index is 0 … Count-1.
	Index, Count int
	// Abort is the device's abort word: 0 while the kernel should run. Kernels pass it to their waits, or poll it.
	Abort *atomic.Uint32

	run        *run
	generation uint64 // barriers passed
}

// run is one launch of a kernel.
type run struct {
	arrived wait.Cell     // grows by one for each block at each barrier
	left    atomic.Uint32 // blocks that have returned
	failed  atomic.Uint32 // 1 once a block has failed
}

// ErrBarrier means that a barrier cannot complete, because another block failed or returned without reaching it.
var ErrBarrier = errors.New("host: barrier broken")

// Barrier waits until all blocks of the launch have called it as often as this one. It fails with ErrBarrier if that
// can no longer happen, and with wait.ErrAborted if the device closes.
func (b *Block) Barrier() error {
	b.generation++
	target := b.generation * uint64(b.Count)
	r := b.run
	if r.arrived.Add(1) >= target {
		return nil
	}
	broken := func() bool { return r.failed.Load() != 0 || r.left.Load() != 0 }
	err := wait.Until(&r.arrived, func() bool { return r.arrived.Reached(target) || broken() }, wait.Limit{Abort: b.Abort},
		nil)
	switch {
	case r.arrived.Reached(target):
		return nil
	case err != nil:
		return fmt.Errorf("host: barrier %d of block %d: %w", b.generation, b.Index, err)
	}
	return fmt.Errorf("%w: barrier %d, block %d of %d", ErrBarrier, b.generation, b.Index, b.Count)
}

// single is the block of single-block kernels. A stream reuses it, because it runs one kernel at a time.
type single struct {
	block Block
	run   run
}

func (s *single) launch(d *Device, name string, k func(*Block) error) error {
	s.run = run{}
	s.block = Block{Count: 1, Abort: &d.abort, run: &s.run}
	return named(name, guardKernel(k, &s.block))
}

// launch runs all blocks and returns the first error. An ErrBarrier counts only if there is no other error.
func launch(d *Device, name string, blocks int, k func(*Block) error) error {
	r := &run{}
	var (
		mu    sync.Mutex
		first error
		wg    sync.WaitGroup
	)
	body := func(i int) {
		b := Block{Index: i, Count: blocks, Abort: &d.abort, run: r}
		err := errExited
		defer func() { // also when k ends the goroutine
			if err != nil {
				r.failed.Store(1)
				mu.Lock()
				if first == nil || errors.Is(first, ErrBarrier) && !errors.Is(err, ErrBarrier) {
					first = fmt.Errorf("block %d: %w", i, err)
				}
				mu.Unlock()
			}
			r.left.Add(1)
			r.arrived.Wake()
		}()
		err = guardKernel(k, &b)
	}
	for i := 1; i < blocks; i++ {
		wg.Go(func() { body(i) })
	}
	body(0)
	wg.Wait()
	return named(name, first)
}

var errExited = errors.New("the kernel ended its goroutine (runtime.Goexit)")

// KernelError is a kernel's failure.
type KernelError struct {
	Kernel string
	Err    error
}

// Error names the kernel.
func (e *KernelError) Error() string { return fmt.Sprintf("host: kernel %s: %v", e.Kernel, e.Err) }

// Unwrap returns the kernel's error, or a *PanicError.
func (e *KernelError) Unwrap() error { return e.Err }

func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return &KernelError{Kernel: name, Err: err}
}
