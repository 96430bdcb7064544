package fault

import (
	"fmt"
	"strings"
	"time"
)

// Verdict says why an operation waits, and what to do. Ranks reach it by comparing their records (package record).
type Verdict struct {
	Kind         VerdictKind   `json:"kind"`
	Rank         int           `json:"rank"`            // the rank to blame; -1: none
	Ranks        []int         `json:"ranks,omitempty"` // all ranks to blame, if there are several
	Host         string        `json:"host,omitempty"`  // of Rank, as are Process and Device
	Process      int           `json:"pid,omitempty"`
	Device       string        `json:"device,omitempty"`
	Communicator string        `json:"communicator"`
	Operation    string        `json:"operation"` // the operation that waits
	Number       uint64        `json:"number"`
	For          time.Duration `json:"for_ns"` // how long it had waited when the verdict was found
	What         string        `json:"what"`   // a sentence without the end
	Mend         string        `json:"todo"`   // what to do
	Evidence     []string      `json:"evidence,omitempty"`
	Found        int64         `json:"found_unix_ns"`
	By           int           `json:"by"`                // the rank that found it; -1: an observer
	Waiting      []int         `json:"waiting,omitempty"` // the ranks that are known to wait for those
}

// VerdictKind is the class of a verdict.
type VerdictKind string

// The kinds of verdicts, the gravest first.
const (
	VerdictDead     VerdictKind = "dead"     // the process of a rank has ended, or its host is gone
	VerdictAborted  VerdictKind = "aborted"  // a rank has ended the communicator, or left it
	VerdictStopped  VerdictKind = "stopped"  // a process is stopped (SIGSTOP, a debugger)
	VerdictMismatch VerdictKind = "mismatch" // ranks called operations that differ
	VerdictDeadlock VerdictKind = "deadlock" // ranks use several communicators in different orders
	VerdictMissing  VerdictKind = "missing"  // a rank runs and has not called the operation
	VerdictBusy     VerdictKind = "busy"     // a rank has called the operation, but earlier work on its stream still runs
	VerdictNetwork  VerdictKind = "network"  // all ranks run the operation, and data between hosts does not arrive
	VerdictGPU      VerdictKind = "gpu"      // all ranks have launched the operation, and it makes no progress
	VerdictUnseen   VerdictKind = "unseen"   // an observer does not see some ranks, and nothing of the others explains it
	VerdictStarved  VerdictKind = "starved"  // a rank gets no processor, called late, or does not get on
	VerdictSlow     VerdictKind = "slow"     // over many operations, the others wait for one rank
)

// VerdictKinds lists all kinds, the gravest first.
var VerdictKinds = []VerdictKind{VerdictDead, VerdictAborted, VerdictStopped, VerdictMismatch, VerdictDeadlock,
	VerdictMissing, VerdictBusy, VerdictNetwork, VerdictGPU, VerdictUnseen, VerdictStarved, VerdictSlow}

// Hang reports whether the verdict is about ranks that do not go on.
func (v *Verdict) Hang() bool { return v.Kind != VerdictSlow && v.Kind != VerdictUnseen }

// Vague reports whether the verdict may have a cause that lies where its finder did not see.
func (v *Verdict) Vague() bool {
	switch v.Kind {
	case VerdictBusy, VerdictNetwork, VerdictGPU, VerdictUnseen:
		return true
	}
	return false
}

// Blamed lists the ranks to blame.
func (v *Verdict) Blamed() []int {
	switch {
	case len(v.Ranks) > 0:
		return v.Ranks
	case v.Rank >= 0:
		return []int{v.Rank}
	}
	return []int{}
}

// String formats v in one line: the fault, its place, and what to do.
func (v *Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.Kind, v.What)
	var at []string
	if v.Host != "" {
		at = append(at, "host "+v.Host)
	}
	if v.Process != 0 {
		at = append(at, fmt.Sprintf("process %d", v.Process))
	}
	if v.Device != "" {
		at = append(at, v.Device)
	}
	if len(at) > 0 {
		fmt.Fprintf(&b, " (rank %d: %s)", v.Rank, strings.Join(at, ", "))
	}
	if v.Mend != "" {
		b.WriteString("; " + v.Mend)
	}
	return b.String()
}
