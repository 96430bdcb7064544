package collective

import "strings"

// Info describes an algorithm of a communicator, built in or registered.
type Info struct {
	Name       string
	Collective Collective
	// Least and Most bound the message sizes (MessageBytes) that the algorithm can run, both ends included.
	Least, Most uint64
	Tags        map[string]uint64
	// Forceable means that GOCCL_ALGO=collective:name can force it. An algorithm that is not forceable is always chosen
	// where it applies.
	Forceable bool
	// Registered means that a Builder made it; otherwise it is the engine's.
	Registered bool
	// Chosen lists the sizes for which selection takes it now, in eager calls with 4-byte elements. It is empty for
	// registered algorithms, which selection tries first.
	Chosen []Span
}

// Span is a range of message sizes, both ends included.
type Span struct{ Least, Most uint64 }

// BaseName strips the parameters from a forced name: two_shot_ll128/256 becomes two_shot_ll128.
func BaseName(name string) string {
	base, _, _ := strings.Cut(name, "/")
	return base
}
