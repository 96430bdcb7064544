package share

import (
	"fmt"
	"log/slog"

	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport/wire"
)

const (
	bufferKind    = 0x42 // 'B'
	bufferVersion = 1
)

// The messages about buffers. All carry a number of the owner's.
const (
	bufferOffer  = iota // to the peers: a Descriptor
	bufferMapped        // to the owner: the address, or 0
	bufferFreed         // to the peers
)

// later gives the background goroutine a task. The caller holds mu.
func (b *Buffers) later(task func()) {
	b.tasks = append(b.tasks, task)
	wait.Signal(b.wake)
}

// work runs the tasks. Messages keep their order, and neither At nor a receiver waits for a peer.
func (b *Buffers) work() {
	for {
		select {
		case <-b.wake:
		case <-b.ctx.Done():
			return
		}
		b.mu.Lock()
		tasks := b.tasks
		b.tasks = nil
		b.mu.Unlock()
		for _, task := range tasks {
			if b.ctx.Err() == nil {
				task()
			}
		}
	}
}

// offer exports an allocation and offers it to the peers.
func (b *Buffers) offer(a *buffer) {
	if !b.affordable(a) {
		return
	}
	desc, revoke, err := Export(b.dev, a.base)
	b.mu.Lock()
	switch {
	case err != nil:
		slog.Debug("a buffer cannot be shared", "rank", b.rank, "base", a.base, "cause", err)
		a.useless = true
		a.decide()
	case a.gone || desc.Handle.Unique != a.unique: // freed meanwhile: the next Sweep forgets it
		defer revoke()
	default:
		b.last++
		a.number, a.revoke = b.last, revoke
		b.byNumber[a.number] = a
		b.mapped(a, b.rank, uint64(a.base))
	}
	number := a.number
	b.mu.Unlock()
	if number != 0 {
		b.send(bufferOffer, number, -1, desc.Put)
	}
}

// affordable reports whether to export an allocation: it was not freed, and there is enough memory.
func (b *Buffers) affordable(a *buffer) bool {
	b.mu.Lock()
	short := b.short
	b.mu.Unlock()
	if m, ok := b.dev.(interface {
		MemoryInfo() (free, total int64, err error)
	}); ok && !short {
		free, total, err := m.MemoryInfo()
		short = err != nil || free < total/memoryKept
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.short, a.full = short, short; short {
		a.decide()
	}
	return !a.gone && !short
}

// mapped notes where a rank has mapped an allocation. The caller holds mu.
func (b *Buffers) mapped(a *buffer, rank int, base uint64) {
	a.at[rank] = base
	a.missing--
	switch {
	case base == 0:
		a.useless = true
		b.later(func() { b.withdraw(a) }) // no kernel has used it
	case a.missing == 0:
		a.revoke()
	default:
		return
	}
	a.decide()
}

// withdraw tells the peers that an allocation is not used any more.
func (b *Buffers) withdraw(a *buffer) {
	b.mu.Lock()
	number := a.number
	a.number = 0
	delete(b.byNumber, number)
	b.mu.Unlock()
	if number != 0 {
		a.revoke()
		b.send(bufferFreed, number, -1, func(*wire.Writer) {})
	}
}

// send sends a message about a buffer to a peer, or to all if to is -1.
func (b *Buffers) send(what uint8, number uint32, to int, put func(*wire.Writer)) {
	var w wire.Writer
	w.U8(what)
	w.U32(number)
	put(&w)
	b.mailbox.send(int(number), to, w.Seal(bufferKind, bufferVersion))
}

func (b *Buffers) handle(peer int, message []byte) error {
	r := wire.Open(message, bufferKind, bufferVersion)
	what, number := r.U8(), r.U32()
	var desc Descriptor
	var base uint64
	switch what {
	case bufferOffer:
		desc = Get(r)
	case bufferMapped:
		base = r.U64()
	case bufferFreed:
	default:
		r.Fail("message %d", what)
	}
	if err := r.Done(); err != nil {
		return err
	}
	if what == bufferOffer {
		return b.accept(peer, number, &desc)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if what == bufferFreed {
		if m := b.maps[peer][number]; m != nil {
			b.retired = append(b.retired, m)
			delete(b.maps[peer], number)
		}
		return nil
	}
	if a := b.byNumber[number]; a != nil && a.at[peer] == 0 {
		b.mapped(a, peer, base)
	}
	return nil
}

// accept maps an allocation of a peer and answers.
func (b *Buffers) accept(peer int, number uint32, desc *Descriptor) error {
	b.mu.Lock()
	twice := b.maps[peer][number] != nil
	b.mu.Unlock()
	if twice {
		return fmt.Errorf("buffer %d comes twice", number)
	}
	var base uint64
	m, err := Map(b.ctx, b.dev, desc)
	if err != nil {
		slog.Debug("a peer's buffer cannot be mapped", "rank", b.rank, "peer", peer, "buffer", number, "cause", err)
	} else {
		base = uint64(m.Ptr)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if m != nil {
		b.maps[peer][number] = m
	}
	b.later(func() {
		b.send(bufferMapped, number, peer, func(w *wire.Writer) { w.U64(base) })
	})
	return nil
}
