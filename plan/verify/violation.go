package verify

import (
	"fmt"
	"strings"

	"github.com/goccl/goccl/plan"
)

// Kind is the kind of a plan's error.
type Kind string

// The kinds of violation.
const (
	WrongResult Kind = "wrong result"
	Deadlock    Kind = "deadlock"
	DataRace    Kind = "data race"
	Unbalanced  Kind = "unbalanced"
	Ambiguous   Kind = "ambiguous"
	Unspecified Kind = "unspecified"
	Unverified  Kind = "unverified"
)

// Violation is the counterexample that Verify returns: a few accesses or waits, and why they conflict.
type Violation struct {
	Kind   Kind
	Plan   string
	Events []Event // in the order in which they go wrong
	Detail string  // why, in one or more lines
	Hint   string  // the usual fix; may be empty
}

// Event is an action of one thread block, or of the caller of a rank, in one launch.
type Event struct {
	Pos       plan.Pos // Block is -1 for the caller
	Hook      int      // 1 + the hook at which the caller acts while the launch runs; 0 for none
	Launch    int      // from 0
	Iteration int      // of the pipeline, -1 outside
	Op        plan.OpName
	Line      string // the author's, "file:line", or ""
	Does      string // "writes", "waits for …"
	Where     *Where // the memory that it accesses, or nil
}

// Where is a range of bytes in a buffer. Lo and Hi are an example, for a message of Message bytes.
type Where struct {
	Place   plan.Place
	Lo, Hi  int64
	Message int64
	Chunk   string // name of the place's chunk
}

func (w *Where) String() string {
	s := fmt.Sprintf("%s of rank %d, %s", w.Place.Plane, w.Place.Rank, w.Chunk)
	if w.Place.Plane <= plan.OutputPlane {
		s += fmt.Sprintf(" (bytes %d to %d when the message has %d)", w.Lo, w.Hi-1, w.Message)
	}
	return s
}

func (e *Event) String() string {
	var b strings.Builder
	if e.Pos.Block < 0 {
		fmt.Fprintf(&b, "the caller of rank %d, ", e.Pos.Rank)
		if e.Launch == 0 {
			b.WriteString("before launch 1,")
		} else {
			fmt.Fprintf(&b, "after launch %d,", e.Launch)
		}
	} else if e.Hook > 0 {
		fmt.Fprintf(&b, "launch %d, the caller of rank %d at hook %d", e.Launch+1, e.Pos.Rank, e.Hook-1)
	} else {
		fmt.Fprintf(&b, "launch %d, %s (%s", e.Launch+1, e.Pos, e.Op)
		if e.Iteration >= 0 {
			fmt.Fprintf(&b, ", iteration %d", e.Iteration)
		}
		b.WriteString(")")
		if e.Line != "" {
			b.WriteString(", at " + e.Line + ",")
		}
	}
	b.WriteString(" " + e.Does)
	if e.Where != nil {
		b.WriteString(" " + e.Where.String())
	}
	return b.String()
}

// Error returns the whole counterexample, one event per line.
func (e *Violation) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan %s: %s", e.Plan, e.Kind)
	for i := range e.Events {
		fmt.Fprintf(&b, "\n  %d. %s", i+1, e.Events[i].String())
	}
	for _, line := range strings.Split(e.Detail, "\n") {
		if line != "" {
			b.WriteString("\n  " + line)
		}
	}
	if e.Hint != "" {
		b.WriteString("\n  hint: " + e.Hint)
	}
	return b.String()
}

// Summary returns the counterexample in one line.
func (e *Violation) Summary() string {
	s := fmt.Sprintf("plan %s: %s", e.Plan, e.Kind)
	if len(e.Events) > 0 {
		s += ": " + e.Events[len(e.Events)-1].String()
	}
	return s
}

func (v *verifier) violation(kind Kind, detail string, events ...Event) *Violation {
	return &Violation{Kind: kind, Plan: v.p.Name, Events: events, Detail: detail}
}

// event describes an executed op, or a caller's turn.
func (v *verifier) event(at event, does string, where *Where) Event {
	e := Event{Pos: plan.Pos{Rank: int(at.pc), Block: -1, Op: -1, Inner: -1},
		Launch: int(at.launch), Iteration: -1, Does: does, Where: where}
	if at.block < 0 {
		return e
	}
	b := v.blocks[at.block]
	e.Hook = v.hookOf(b)
	program := b.programs[min(int(at.launch), len(b.programs)-1)]
	if int(at.pc) >= len(program) {
		e.Pos = plan.Pos{Rank: b.rank, Block: int(at.block) - v.first[b.rank], Op: len(v.programs[b.id]), Inner: -1}
		e.Op = "end"
		return e
	}
	u := &program[at.pc]
	e.Pos, e.Op = u.step.Pos, u.step.Op.Name
	if e.Pos.Inner >= 0 {
		e.Iteration = int(u.iter)
	}
	e.Line = v.p.Line(e.Pos)
	return e
}

// hookOf returns 1 + the hook at which b is the caller's work, or 0 for a thread block of the plan.
func (v *verifier) hookOf(b *blockState) int {
	return max(0, b.id-v.first[b.rank]-len(v.p.GPUs[b.rank].ThreadBlocks)+1)
}

// title names a thread block, or the caller's work at a hook.
func (v *verifier) title(b *blockState) string {
	if h := v.hookOf(b); h > 0 {
		return fmt.Sprintf("the caller of rank %d at hook %d", b.rank, h-1)
	}
	return fmt.Sprintf("rank %d, thread block %d", b.rank, b.id-v.first[b.rank])
}

// here describes b at the op that it executes.
func (v *verifier) here(b *blockState, does string) Event {
	return v.event(event{int32(b.id), int32(b.pc), int32(b.launch)}, does, nil)
}

// where returns an example range for one atom of one chunk of a place.
func (v *verifier) where(pl *plan.Place, part sub) *Where {
	a := v.shape.atoms[part.atom]
	chunk := pl.Index + int(part.chunk)
	l := v.p.OfChunk(a.chunk)
	at, _ := l.Locate(chunk, a.lo)
	return &Where{Place: plan.Place{Rank: pl.Rank, Plane: pl.Plane, Index: chunk, Size: 1}, Lo: at, Hi: at + a.hi - a.lo,
		Message: l.Message, Chunk: v.p.ChunkName(chunk)}
}
