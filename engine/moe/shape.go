package moe

import (
	"fmt"
	"math/bits"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
)

// Limits of a Shape.
const (
	MaxRanks   = maxRanks
	MaxTopK    = 16
	MaxExperts = 1024 // of one rank
	// PieceTokens is the number of tokens that share a flag.
	PieceTokens = 4
	// ScaleElements is the number of elements of float8 that share a scale.
	ScaleElements = 128
)

// Layout is the order of what a rank gets.
type Layout uint32

// The layouts; see the package comment.
const (
	Rows Layout = iota
	Experts
	ZeroCopy
)

// Shape is what all ranks of an operation have in common.
type Shape struct {
	Layout  Layout
	Hidden  int // elements of a token
	TopK    int // experts of a token; 0: tokens are sent to ranks (NotifyArgs.InRank)
	Experts int // of all ranks, each of which has the same number; 0 if tokens are sent to ranks
}

// entries is the length of a token's list in messages.
func (s *Shape) entries() int { return max(1, s.TopK) }

// local is the number of experts of a rank.
func (s *Shape) local(ranks int) int { return max(1, s.Experts/ranks) }

func (s *Shape) validate(ranks int) error {
	switch {
	case s.Layout > ZeroCopy:
		return bad("layout %d is not known", s.Layout)
	case s.Hidden < 8 || s.Hidden%8 != 0 || s.Hidden > 1<<16:
		return bad("a token of %d elements: want a multiple of 8, up to %d", s.Hidden, 1<<16)
	case s.TopK < 0 || s.TopK > MaxTopK:
		return bad("%d experts for each token: want up to %d", s.TopK, MaxTopK)
	case s.Experts < 0 || s.Experts%ranks != 0:
		return bad("%d experts on %d ranks: want the same number on each rank", s.Experts, ranks)
	case s.Experts/ranks > MaxExperts:
		return bad("%d experts of each rank: want up to %d", s.Experts/ranks, MaxExperts)
	case s.TopK > 0 && s.Experts < s.TopK:
		return bad("%d experts of %d for each token", s.TopK, s.Experts)
	case s.Layout == Experts && s.TopK == 0:
		return bad("the layout Experts needs the experts of each token: TopK is 0")
	}
	return nil
}

// signature differs between ranks that call different operations.
func (s *Shape) signature(kind uint32, more uint32) uint32 {
	h := uint64(kind) + 1
	for _, v := range []uint32{uint32(s.Layout), uint32(s.Hidden), uint32(s.TopK), uint32(s.Experts), more} {
		h = (h ^ uint64(v)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return uint32(h>>32) | 1
}

// row is the format of a row between ranks. Each part is a multiple of 8 bytes.
type row struct {
	data   int // bytes of elements
	scales int // bytes of scales, behind the elements
	lists  int // bytes of the token's list, behind the scales: experts as int32, then weights as float32
}

func (s *Shape) row(t datatype.Type, lists bool) row {
	r := row{data: s.Hidden * int(t.Size())}
	if t == datatype.Float8E4M3 {
		r.scales = eights(scalesOf(s.Hidden) * 4)
	}
	if lists {
		r.lists = 8 * s.TopK
	}
	return r
}

// scalesOf is the number of scales of a token.
func scalesOf(hidden int) int { return (hidden + ScaleElements - 1) / ScaleElements }

func eights(n int) int { return (n + 7) &^ 7 }

func (r row) bytes() int { return r.data + r.scales + r.lists }

// slot is the distance between rows in an arena.
func (r row) slot() int64 { return (int64(r.bytes()) + 127) &^ 127 }

// lines is the distance between rows of packets: 120 bytes of each 128 are data, and four lines go together.
func (r row) lines() int64 { return (int64(r.bytes()) + 479) / 480 * 512 }

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{collective.ErrInvalidArgument}, args...)...)
}

// first is the lowest rank of a set.
func first(set uint32) int { return bits.TrailingZeros32(set) }
