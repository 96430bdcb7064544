package dsl

import "github.com/goccl/goccl/plan"

// Auto lets the compiler choose the thread block.
const Auto = -1

// ThreadBlockGroup is several thread blocks of a rank that share one operation. Each executes a slice of it.
type ThreadBlockGroup []int

// ReduceOp is a reduction operator, with the names that plans use.
type ReduceOp = plan.ReduceOp

// The operators. CallerOp, the default, is the operator that the caller of the collective chooses.
const (
	CallerOp = plan.CallerOp
	Sum      = plan.Sum
	Min      = plan.Min
	Max      = plan.Max
	Prod     = plan.Prod
)

type settings struct {
	tb      int
	group   ThreadBlockGroup
	sync    SyncType
	relaxed bool
	op      ReduceOp
	into    *Chunk
	packet  bool
	bound   *plan.Bound
}

// Option is an option of an operation.
type Option func(*settings)

// TB runs the operation on one thread block.
func TB(id int) Option { return func(s *settings) { s.tb, s.group = id, nil } }

// Group runs the operation on all blocks of g, each on its slice.
func Group(g ThreadBlockGroup) Option { return func(s *settings) { s.group = g } }

// Sync determines where the threads of the block synchronize around a signal, wait, flush or semaphore operation.
// Without it they synchronize where the compiler finds it necessary, or on both sides when the program has NoAutoSync.
func Sync(t SyncType) Option { return func(s *settings) { s.sync = t } }

// Relaxed drops the memory order of a signal or wait: it orders arrival, not data.
func Relaxed() Option { return func(s *settings) { s.relaxed = true } }

// With sets the reduction operator.
func With(op ReduceOp) Option { return func(s *settings) { s.op = op } }

// Into stores a reduction's result in dst instead of its first operand.
func Into(dst Chunk) Option { return func(s *settings) { s.into = &dst } }

// Packet declares that the other operands of a reduction are packets in scratch.
func Packet() Option { return func(s *settings) { s.packet = true } }

// Counted limits the operation by the count of the bytes that rank src sends to rank dst, in an all-to-all whose counts
// are known when it runs. The moved bytes begin at chunk index of that block.
func Counted(src, dst, index int) Option {
	return func(s *settings) { s.bound = &plan.Bound{Src: src, Dst: dst, Index: index} }
}

func apply(opts []Option) settings {
	s := settings{tb: Auto, sync: syncUnset}
	for _, o := range opts {
		o(&s)
	}
	return s
}

// SyncType determines where the threads of a block synchronize around an operation that only a few of them execute.
type SyncType uint8

const (
	SyncNone   SyncType = 0
	SyncBefore SyncType = 1
	SyncAfter  SyncType = 2
	SyncBoth   SyncType = SyncBefore | SyncAfter

	syncUnset SyncType = 4 // not set by the author: both, or what auto-sync finds
)

var syncNames = map[string]SyncType{"none": SyncNone, "before": SyncBefore, "after": SyncAfter, "both": SyncBoth}

func (t SyncType) String() string { return [...]string{"none", "before", "after", "both"}[t&SyncBoth] }
