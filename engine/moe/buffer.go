package moe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
)

// Config configures a Buffer. All ranks give the same sizes.
type Config struct {
	collective.Job // OnFailure is called once, with the first failure of this rank's work
	// Order, on a GPU, orders the operations with the communicator's other work.
	Order *cuda.Order
	Size
}

// Size is the memory of a Buffer, the same on all ranks.
type Size struct {
	// Bytes of rows in the arena of a rank. An eighth is for packets. SizeFor computes what tokens need.
	Bytes int64
	// Tokens of a rank in one operation, at most; 0: 16384.
	Tokens int
	// PacketTokens: ranks of up to that many tokens send packets; 0: 256, negative: no rank does.
	PacketTokens int
	// Blocks of a kernel on a GPU; 0: 16, and 96 for ranks of few tokens, which send packets.
	Blocks int
}

// Defaults of Size.
const (
	DefaultTokens       = 16384
	DefaultPacketTokens = 256
	DefaultBlocks       = 16
	DefaultPacketBlocks = 96
	maxBlocks           = 128
)

// SizeFor is the smallest Bytes for tokens of a shape in bfloat16, with lists.
func SizeFor(ranks, tokens int, s Shape) int64 {
	r := row{data: 2 * s.Hidden, lists: 8 * s.TopK}
	rows := int64(kinds*ranks) * int64(tokens) * r.slot()
	lines := int64(kinds*ranks) * int64(min(tokens, DefaultPacketTokens)) * r.lines()
	return line(max(rows*8/7, lines*8) + 8*128*int64(kinds*ranks))
}

func (s *Size) fill() error {
	if s.Tokens == 0 {
		s.Tokens = DefaultTokens
	}
	if s.PacketTokens == 0 {
		s.PacketTokens = DefaultPacketTokens
	}
	s.PacketTokens = min(max(0, s.PacketTokens), s.Tokens)
	switch {
	case s.Bytes < 1<<16 || s.Bytes > 1<<42:
		return bad("a buffer of %d bytes: want at least 64 KiB; SizeFor says how many tokens need", s.Bytes)
	case s.Tokens < 1 || s.Tokens > 1<<18:
		return bad("%d tokens: want 1 to %d", s.Tokens, 1<<18)
	case !blocksOK(s.Blocks):
		return bad("%d blocks: want 0, or 2 to %d", s.Blocks, maxBlocks)
	}
	return nil
}

// Buffer dispatches and combines the tokens of one rank.
type Buffer struct {
	cfg        Config
	rank, size int
	arena      arena
	memory     *share.Arena
	engine     engine

	aborted  atomic.Uint32 // abort word of waits on the host; nonzero once cause is set
	cause    abort.Cause
	mu       sync.Mutex // guards the fields below, the setting of cause, and the arena against an Abort during its end
	closed   bool
	detached bool                // SetMask was called
	live     bootstrap.Bootstrap // the group of the ranks that the latest SetMask has left; nil before the first
	members  []int               // rank of live → rank
	watch    sync.WaitGroup      // the goroutines that watch live
	masks    uint32              // the latest SetMask of all ranks; used by SetMask only
}

// engine runs the operations on a device. A call enqueues; arguments are valid.
type engine interface {
	notify(seq uint64, a *NotifyArgs) error
	dispatch(seq uint64, a *DispatchArgs) error
	combine(seq uint64, a *CombineArgs) error
	count(a *CountArgs) error
	// idle waits until this rank's work has ended, well or not.
	idle(ctx context.Context) error
	// latest are the numbers so far. Like restart it is called while no work runs.
	latest() (numbers, error)
	// restart makes all operations go on behind numbers n, with a mask. No peer writes to this rank's arena.
	restart(n numbers, w word, replicas []int32) error
	// err is a failure that the device has reported, or nil.
	err() error
	// leave ends all waits of this rank and tells the peers why. Only the first cause counts.
	leave(cause error)
	// exit is why a rank has left, 0 if that is not known.
	exit(rank int) fault.Exit
	// wait waits, with a bound, until enqueued work has ended.
	wait() error
	close() error
}

// New makes the arenas. It is collective.
func New(ctx context.Context, cfg Config) (*Buffer, error) {
	if cfg.Bootstrap == nil || cfg.Device == nil {
		return nil, bad("Config needs a Bootstrap and a Device")
	}
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	b := &Buffer{cfg: cfg, rank: cfg.Bootstrap.Rank(), size: cfg.Bootstrap.WorldSize()}
	if b.size > MaxRanks {
		return nil, fmt.Errorf("%w: %d ranks; experts are on up to %d", collective.ErrUnsupported, b.size, MaxRanks)
	}
	if r, err := bootstrap.OtherHost(cfg.Bootstrap); err != nil {
		return nil, b.error("moe", 0, r, fmt.Errorf("%w: experts are on the ranks of one host: %w",
			collective.ErrUnsupported, err))
	}
	b.arena = newArena(b.size, cfg.Bytes, cfg.Tokens, cfg.PacketTokens)
	var err error
	if b.memory, err = share.NewArena(ctx, cfg.Bootstrap, cfg.Device, b.arena.bytes()); err != nil {
		return nil, err
	}
	switch cfg.Device.(type) {
	case *host.Device:
		b.engine = &hostEngine{b: b, policy: wait.For(b.memory.Here(), b.size)}
	case *cuda.Device:
		err = openCUDA(ctx, b)
	default:
		err = fmt.Errorf("%w: device %v", collective.ErrUnsupported, cfg.Device.ID())
	}
	if err != nil {
		return nil, errors.Join(err, b.memory.Close())
	}
	return b, nil
}

// error is an error of an operation.
func (b *Buffer) error(op string, seq uint64, peer int, err error) error {
	return &collective.Error{Comm: b.cfg.Name, Op: op, Rank: b.rank, Peer: peer, Seq: seq, Err: err}
}

// fail records the first failure of this rank's work and ends the rest.
func (b *Buffer) fail(err error) error {
	b.Abort(err)
	return err
}

// Abort ends every running and later operation with cause, until SetMask. Only the first cause counts.
func (b *Buffer) Abort(cause error) {
	if cause == nil {
		cause = collective.ErrAborted
	}
	b.mu.Lock()
	first := b.abort(cause)
	b.mu.Unlock()
	b.report(first, cause)
}

// abort requires mu. It reports whether cause is the first one.
func (b *Buffer) abort(cause error) bool {
	if !b.closed {
		cause = fault.First(cause, b.size, b.engine.exit)
	}
	if !b.cause.Set(cause) {
		return false
	}
	b.aborted.Store(1)
	if !b.closed {
		b.engine.leave(cause)
		b.giveUp(cause)
	}
	return true
}

func (b *Buffer) report(first bool, cause error) {
	if first && b.cfg.OnFailure != nil {
		b.cfg.OnFailure(cause)
	}
}

// Err returns the cause of the abort, the first failure of an operation, or nil.
func (b *Buffer) Err() error {
	if err := b.cause.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	var err error
	if !b.closed {
		err = b.engine.err()
	}
	first := err != nil && b.abort(err)
	b.mu.Unlock()
	b.report(first, err)
	return b.cause.Err()
}

// ended is the error of work that was cut short by the cause.
func (b *Buffer) ended(op string, seq uint64) error {
	cause := b.cause.Err()
	if ae := fault.Of(cause); ae != nil {
		return b.error(op, seq, ae.Peer, ae.Err)
	}
	if errors.Is(cause, collective.ErrAborted) {
		return b.error(op, seq, -1, cause)
	}
	return b.error(op, seq, -1, fmt.Errorf("%w: %w", collective.ErrAborted, cause))
}

// Close frees the buffer. It ends work that still runs; peers that wait for this rank fail.
func (b *Buffer) Close() error { return b.end(b.engine.wait) }

// Free is Close after the owner of Config.Order has closed: all work has ended.
func (b *Buffer) Free() error { return b.end(func() error { return nil }) }

func (b *Buffer) end(wait func() error) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	closed := b.error("moe", 0, -1, collective.ErrClosed)
	b.engine.leave(closed)
	b.closed = true
	b.cause.Set(closed)
	b.aborted.Store(1)
	b.mu.Unlock()
	leave := b.unwatch()
	if err := wait(); err != nil {
		return err // the device may still use the arena, so it is not freed
	}
	return errors.Join(leave, b.engine.close(), b.memory.Close())
}
