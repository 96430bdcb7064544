package algorithm

import "strings"

// Info describes an algorithm of a communicator, built in or registered.
type Info struct {
	Name       string
	Collective Collective
	// Least and Most are the message sizes (MessageBytes) that it can run, both ends included.
	Least, Most uint64
	Tags        map[string]uint64
	// Forceable: GOCCL_ALGO=collective:name makes it the choice. What is not is always chosen where it applies.
	Forceable bool
	// Registered: it joined by a Builder; otherwise it is the engine's.
	Registered bool
	// Chosen is where selection takes it now, in eager calls of 4-byte elements. Empty for registered ones, which selection asks first.
	Chosen []Span
}

// Span is a range of message sizes, both ends included.
type Span struct{ Least, Most uint64 }

// Lister is what engines also implement that can say which algorithms they have. The list is by collective, and within one in the order in which the
// engine's documentation has them; it may be asked for by any goroutine. The engine obeys GOCCL_ALGO (ParseForced) where that names one of its
// Forceable algorithms, and leaves other names alone: they may be those of algorithms that will join.
type Lister interface {
	Algorithms() []Info
}

// BaseName is a forced name without its parameters: two_shot_ll128 of two_shot_ll128/256.
func BaseName(name string) string {
	base, _, _ := strings.Cut(name, "/")
	return base
}
