package agreement

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/goccl/goccl/internal/setting"
)

// place is a rank's position: a step of the call of that number.
type place struct {
	number uint64
	step   uint32
}

// Contribution is one rank's input to a step.
type Contribution struct {
	Excludes Set    // ranks that it excludes
	Fine     bool   // its work since the last step succeeded
	Against  bool   // otherwise: because its vote was against going on
	Blames   int    // otherwise: the rank to blame, -1 for none
	Nonce    uint64 // random, so that no two outcomes are equal
}

type kind byte

const (
	kindState kind = iota + 1
	kindDecided
	kindWithdrawn
	kindGaveUp
)

// message is a message between ranks: a state (the last one is the outcome), a withdrawal, or a joint call that the
// sender has given up, whose number is in place.
type message struct {
	kind   kind
	place  place
	blames int    // of a withdrawal
	joint  uint64 // the sender's latest completed joint call
	done   Set
	known  []*Contribution // by rank; nil: unknown
	why    []byte          // of a joint call that was given up: bootstrap.EncodeFailure
}

const (
	version      = 4
	headBytes    = 26 // version, kind, number u64, step u32, blames i32, joint u64
	contribution = 13 // and the excluded set: fine, blames i32, nonce u64
)

func (m *message) encode() []byte {
	size := len(m.known)
	b := make([]byte, 0, headBytes+2*len(m.done)+size*(contribution+len(m.done)))
	b = append(b, version, byte(m.kind))
	b = binary.LittleEndian.AppendUint64(b, m.place.number)
	b = binary.LittleEndian.AppendUint32(b, m.place.step)
	b = binary.LittleEndian.AppendUint32(b, uint32(int32(m.blames)))
	b = binary.LittleEndian.AppendUint64(b, m.joint)
	b = append(b, m.done...)
	return append(appendKnown(b, m.known), m.why...)
}

func appendKnown(b []byte, known []*Contribution) []byte {
	b = append(b, knownSet(known)...)
	for _, c := range known {
		if c == nil {
			continue
		}
		fine := byte(0)
		switch {
		case c.Fine:
			fine = 1
		case c.Against:
			fine = 2
		}
		b = binary.LittleEndian.AppendUint32(append(b, fine), uint32(int32(c.Blames)))
		b = append(binary.LittleEndian.AppendUint64(b, c.Nonce), c.Excludes...)
	}
	return b
}

func knownSet(known []*Contribution) Set {
	s := NewSet(len(known))
	for r, c := range known {
		if c != nil {
			s.Add(r)
		}
	}
	return s
}

// decode decodes a message of a job of size ranks. The message keeps references to b.
func decode(b []byte, size int) (*message, error) {
	n := (size + 7) / 8
	bad := fmt.Errorf("agreement: %d bytes are no message of this version for %d ranks", len(b), size)
	if len(b) < headBytes+2*n || b[0] != version || kind(b[1]) < kindState || kind(b[1]) > kindGaveUp {
		return nil, bad
	}
	m := &message{kind: kind(b[1]), known: make([]*Contribution, size)}
	m.place = place{binary.LittleEndian.Uint64(b[2:]), binary.LittleEndian.Uint32(b[10:])}
	m.blames = rankIn(binary.LittleEndian.Uint32(b[14:]), size)
	m.joint = binary.LittleEndian.Uint64(b[18:])
	m.done = Set(b[headBytes : headBytes+n : headBytes+n])
	known := Set(b[headBytes+n : headBytes+2*n])
	b = b[headBytes+2*n:]
	if m.kind == kindGaveUp && known.Len() == 0 {
		m.why, b = b, nil
	}
	if !fits(m.done, size) || !fits(known, size) || len(b) != known.Len()*(contribution+n) {
		return nil, bad
	}
	for r := range size {
		if !known.Has(r) {
			continue
		}
		c := &Contribution{Fine: b[0] == 1, Against: b[0] == 2, Blames: rankIn(binary.LittleEndian.Uint32(b[1:]), size),
			Nonce: binary.LittleEndian.Uint64(b[5:])}
		c.Excludes = Set(b[contribution : contribution+n : contribution+n])
		if !fits(c.Excludes, size) {
			return nil, bad
		}
		m.known[r], b = c, b[contribution+n:]
	}
	return m, nil
}

// rankIn returns v if it is a rank below size, or -1.
func rankIn(v uint32, size int) int {
	if r := int(int32(v)); r >= 0 && r < size {
		return r
	}
	return -1
}

// fits reports whether all ranks of s are below size.
func fits(s Set, size int) bool {
	return size%8 == 0 || bits.Len8(s[len(s)-1]) <= size%8
}

// Quorum reports whether these members of a job of size ranks may go on without the rest. Of two sets without a common
// rank at most one may, unless the rule is QuorumOff. numbers are the ranks' numbers in the job; nil: their own.
func Quorum(rule setting.Quorum, size int, numbers, members []int) bool {
	if rule == setting.QuorumOff {
		return true
	}
	for r := range size {
		number := r
		if numbers != nil {
			number = numbers[r]
		}
		if rule >= setting.QuorumRank && number == int(rule-setting.QuorumRank) {
			return slices.Contains(members, r)
		}
	}
	return 2*len(members) > size || 2*len(members) == size && slices.Contains(members, 0)
}

// Outcome is the result of a step.
type Outcome struct {
	Known []*Contribution // by rank; nil: the rank is dead, or excluded by some rank
	place place
}

// Members returns the ranks that contributed and that no rank excludes, in order.
func (o *Outcome) Members() (ranks []int) {
	out := NewSet(len(o.Known))
	for _, c := range o.Known {
		if c != nil {
			out.join(c.Excludes)
		}
	}
	for r, c := range o.Known {
		if c != nil && !out.Has(r) {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// NotFine returns the first of these ranks whose work failed or that did not contribute, or -1.
func (o *Outcome) NotFine(ranks []int) int {
	for _, r := range ranks {
		if c := o.Known[r]; c == nil || !c.Fine {
			return r
		}
	}
	return -1
}

// ID returns a value that is the same on all ranks that have this outcome, and different for every other outcome.
func (o *Outcome) ID() []byte {
	b := binary.LittleEndian.AppendUint64([]byte("agreement"), o.place.number)
	b = binary.LittleEndian.AppendUint32(b, o.place.step)
	sum := sha256.Sum256(appendKnown(b, o.Known))
	return sum[:]
}

// Set is a set of ranks, as a bit mask.
type Set []byte

// NewSet returns the set of these ranks, for a job of size ranks.
func NewSet(size int, ranks ...int) Set {
	s := make(Set, (size+7)/8)
	for _, r := range ranks {
		s.Add(r)
	}
	return s
}

// Add adds rank r.
func (s Set) Add(r int) { s[r/8] |= 1 << (r % 8) }

// Has reports whether rank r is in s.
func (s Set) Has(r int) bool { return s[r/8]&(1<<(r%8)) != 0 }

// Len returns the number of ranks in s.
func (s Set) Len() (n int) {
	for _, b := range s {
		n += bits.OnesCount8(b)
	}
	return n
}

// Equal reports whether s and t have the same ranks.
func (s Set) Equal(t Set) bool { return slices.Equal(s, t) }

// join adds all ranks of t and reports whether s has grown.
func (s Set) join(t Set) (grown bool) {
	for i, b := range t {
		grown = grown || b&^s[i] != 0
		s[i] |= b
	}
	return grown
}
