package plan

// Effects are what an op does. Each effect has one meaning, in the memory model of docs/plan-format.md; an op with
// several does them in the order of these constants. Single threads take, add and flush, and all threads move: where
// one follows the other, the threads of the block meet in between. Over a port channel thread i pushes transfer i, so
// there they need not meet.
type Effects uint8

const (
	Takes Effects = 1 << iota // thread i waits until counter i is positive and takes one: acquire
	Moves                     // data moves from sources to destinations
	// thread i adds one to counter i: release. On a channel, it is the counter at the peer's end
	Adds
	Flushes // thread i waits until the transfers pushed into port channel i have left their source
	Meets   // all threads of the block meet
	Joins   // all threads of the thread blocks of a barrier meet
	Loops   // runs its body, once for each window of the operands
)

// Has reports whether all of o are among e.
func (e Effects) Has(o Effects) bool { return e&o == o }

// Code is what the executor's kernel does for an op (kernels/executor/program.cuh).
type Code uint8

// The codes.
const (
	CodeNop Code = iota
	CodeBarrier
	CodeSignal
	CodeWait
	CodeFlush
	CodeAcquire
	CodeRelease
	CodeData
	CodeLoop    // begins a pipeline
	CodeEndLoop // ends one
)

// first returns the effect that comes first.
func (e Effects) first() Effects { return e & -e }

// code returns the code of the first of the effects.
func (e Effects) code(semaphores bool) Code {
	switch e.first() {
	case Takes:
		if semaphores {
			return CodeAcquire
		}
		return CodeWait
	case Moves:
		return CodeData
	case Adds:
		if semaphores {
			return CodeRelease
		}
		return CodeSignal
	case Flushes:
		return CodeFlush
	case Joins:
		return CodeBarrier
	case Loops:
		return CodeLoop
	}
	return CodeNop
}
