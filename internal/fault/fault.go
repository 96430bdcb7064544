// Package fault has the errors by which ranks tell each other apart: one set of kinds for errors.Is, and one Error that
// names the rank that failed, its operation and the peer to blame. A Verdict says why an operation waits. The package
// imports nothing of the project, so that every part of it can use them.
package fault

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of errors.
var (
	ErrPeerDead        = errors.New("a rank has died or its host cannot be reached")
	ErrTimeout         = errors.New("the deadline passed")
	ErrAborted         = errors.New("the communicator was aborted")
	ErrClosed          = errors.New("the communicator is closed")
	ErrMismatch        = errors.New("ranks called different operations")
	ErrCorrupt         = errors.New("data was damaged")
	ErrInvalidArgument = errors.New("invalid argument")
	ErrInvalidUsage    = errors.New("invalid usage")
	ErrUnsupported     = errors.New("not supported")
	ErrNoQuorum        = errors.New("no quorum")
)

// Error gives the rank that saw a failure, the operation, and the peer that caused it.
type Error struct {
	Part string // what failed: "" for a communicator, else a layer below it, such as "primitive"
	Comm string // the communicator's name, if it has one
	Op   string // "" where Err says it all
	Rank int    // -1 if it is not known
	Peer int    // -1 if no peer is to blame
	Seq  uint64 // 0 if the failure belongs to no numbered operation
	Err  error
	// Verdict is what the ranks found when they compared their records while the operation waited, or nil.
	Verdict *Verdict
}

// Error formats e like "goccl: all_reduce #12 on rank 3, peer 5: the deadline passed".
func (e *Error) Error() string {
	if e.Op == "" {
		return e.Err.Error()
	}
	var b strings.Builder
	if e.Part == "" {
		b.WriteString("goccl")
	}
	b.WriteString(e.Part + ": " + e.Op)
	if e.Seq != 0 {
		fmt.Fprintf(&b, " #%d", e.Seq)
	}
	if e.Comm != "" {
		fmt.Fprintf(&b, " of %q", e.Comm)
	}
	if e.Rank >= 0 {
		fmt.Fprintf(&b, " on rank %d", e.Rank)
	}
	if e.Peer >= 0 {
		fmt.Fprintf(&b, ", peer %d", e.Peer)
	}
	b.WriteString(": " + e.Err.Error())
	if e.Verdict != nil {
		b.WriteString(" [" + e.Verdict.String() + "]")
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Of returns the first error of a communicator in the chain of err, nil if there is none.
func Of(err error) *Error { return find(err, func(e *Error) bool { return e.Part == "" }) }

// PartOf returns the first error of a part in the chain of err, nil if there is none.
func PartOf(err error, part string) *Error {
	return find(err, func(e *Error) bool { return e.Part == part })
}

// PeerOf returns the first rank that an error in the chain of err blames, or -1.
func PeerOf(err error) int {
	if e := find(err, func(e *Error) bool { return e.Peer >= 0 }); e != nil {
		return e.Peer
	}
	return -1
}

// find searches in the order of errors.As.
func find(err error, ok func(*Error) bool) *Error {
	if e, is := err.(*Error); is && ok(e) {
		return e
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		return find(u.Unwrap(), ok)
	case interface{ Unwrap() []error }:
		for _, x := range u.Unwrap() {
			if e := find(x, ok); e != nil {
				return e
			}
		}
	}
	return nil
}

// Blame makes an error of a part that a peer is to blame for. The format names the peer.
func Blame(part string, peer int, format string, args ...any) error {
	return &Error{Part: part, Rank: -1, Peer: peer, Err: fmt.Errorf(format, args...)}
}
