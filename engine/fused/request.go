package fused

import (
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// MaxHidden is the largest Request.Hidden.
const MaxHidden = 16384

// Quantisation is how the norm is quantised.
type Quantisation uint8

// The quantisations. Static takes the scale from Request.Scale, Dynamic computes one for each row.
const (
	NoQuantisation Quantisation = iota
	Static
	Dynamic
	numQuantisations
)

// Request is one fused all-reduce of one rank. Buffers are row-major, and outputs with address 0 are not written. All
// ranks give the same Tokens, Hidden, Type, Algorithm and DividedResidual. Buffers begin at a multiple of 16 bytes.
// An output may be the same memory as Input or Residual, and must not overlap other buffers otherwise.
type Request struct {
	Tokens, Hidden int64         // rows, and elements of a row: a multiple of 8, up to MaxHidden
	Type           datatype.Type // Float16, Bfloat16 or Float32: of all buffers except the quantised ones and the scales

	Input       device.Ptr // Tokens·Hidden elements: this rank's part of the sum
	Sum         device.Ptr // out: the all-reduced input
	Residual    device.Ptr // Tokens·Hidden elements; 0: none is added
	ResidualOut device.Ptr // out: the sum with the residual
	Weight      device.Ptr // Hidden elements; 0: all are 1
	Epsilon     float32
	Norm        device.Ptr // out

	Quantisation Quantisation
	QuantType    datatype.Type // Int8 or Float8E4M3
	Quant        device.Ptr    // out: Tokens·Hidden elements of QuantType
	Scale        device.Ptr    // Static: one float32, read when the request runs
	ScaleOut     device.Ptr    // out, Dynamic: Tokens float32

	// DividedResidual: the rows of Residual, ResidualOut and Sum are divided among the ranks. Rank r reads and writes
	// only the rows of Slice(r). A row is then added and normalised on one rank instead of on all: one-shot runs as
	// two-shot.
	DividedResidual bool

	// Algorithm is one_shot, two_shot or apart; "": by size.
	Algorithm string

	Stream device.Stream
}

// Slice returns the rows [from, to) that rank r of n owns.
func (r *Request) Slice(rank, n int) (from, to int64) {
	each := (r.Tokens + int64(n) - 1) / int64(n)
	return min(r.Tokens, int64(rank)*each), min(r.Tokens, int64(rank+1)*each)
}

// RowBytes is the size of a row.
func (r *Request) RowBytes() int64 { return r.Hidden * r.Type.Size() }

// Bytes is the size of Input.
func (r *Request) Bytes() int64 { return r.Tokens * r.RowBytes() }

// normalises reports whether steps after the residual are needed.
func (r *Request) normalises() bool { return r.Norm != 0 || r.Quantisation != NoQuantisation }

// divides reports whether rows are normalised by their owners only.
func (r *Request) divides() bool { return r.DividedResidual && r.Residual|r.ResidualOut|r.Sum != 0 }

// Validate finds mistakes that need no device to be found.
func (r *Request) Validate() error {
	switch {
	case r.Tokens < 0 || r.Tokens > 1<<31-1:
		return bad("%d tokens: want 0 to 2³¹-1", r.Tokens)
	case r.Hidden < 8 || r.Hidden > MaxHidden || r.Hidden%8 != 0:
		return bad("a hidden size of %d: want a multiple of 8 up to %d", r.Hidden, MaxHidden)
	case r.Type != datatype.Float16 && r.Type != datatype.Bfloat16 && r.Type != datatype.Float32:
		return bad("elements of %v: want half, bfloat16 or float", r.Type)
	case r.Quantisation >= numQuantisations:
		return bad("quantisation %d is not known", r.Quantisation)
	case r.Quantisation != NoQuantisation && r.QuantType != datatype.Int8 && r.QuantType != datatype.Float8E4M3:
		return bad("quantised elements of %v: want int8 or f8e4m3", r.QuantType)
	case r.Sum == 0 && r.ResidualOut == 0 && r.Norm == 0 && r.Quantisation == NoQuantisation:
		return bad("no output is wanted")
	case r.Algorithm != "" && r.Algorithm != OneShot && r.Algorithm != TwoShot && r.Algorithm != Apart:
		return bad("no algorithm %q: there are %s, %s and %s", r.Algorithm, OneShot, TwoShot, Apart)
	case r.Tokens == 0:
		return nil
	case r.Input == 0:
		return bad("the input is NULL")
	case r.Quantisation != NoQuantisation && r.Quant == 0:
		return bad("the quantised output is NULL")
	case r.Quantisation == Static && (r.Scale == 0 || r.Scale&3 != 0):
		return bad("the scale is at %#x: want a float in the device's memory", r.Scale)
	case r.Quantisation == Dynamic && (r.ScaleOut == 0 || r.ScaleOut&3 != 0):
		return bad("the scales are to be at %#x: want room for %d floats", r.ScaleOut, r.Tokens)
	}
	for _, b := range r.buffers() {
		if b.at&15 != 0 {
			return bad("%s is at %#x: want a multiple of 16 bytes", b.name, b.at)
		}
	}
	return r.validateOverlaps()
}

type buffer struct {
	name  string
	at    device.Ptr
	bytes int64
	out   bool
}

// buffers lists what the request reads and writes, without the scales.
func (r *Request) buffers() [7]buffer {
	quant := r.Quant
	if r.Quantisation == NoQuantisation {
		quant = 0
	}
	return [7]buffer{{"the input", r.Input, r.Bytes(), false}, {"the residual", r.Residual, r.Bytes(), false},
		{"the weight", r.Weight, r.RowBytes(), false}, {"the sum", r.Sum, r.Bytes(), true},
		{"the new residual", r.ResidualOut, r.Bytes(), true}, {"the norm", r.Norm, r.Bytes(), true},
		{"the quantised output", quant, r.Tokens * r.Hidden, true}}
}

func (r *Request) validateOverlaps() error {
	all := r.buffers()
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.at == 0 || b.at == 0 || !b.out || a.at.Add(a.bytes) <= b.at || b.at.Add(b.bytes) <= a.at {
				continue
			}
			if !a.out && a.at == b.at && a.bytes == b.bytes && i < 2 {
				continue // in place
			}
			return bad("%s at %#x overlaps %s at %#x", b.name, b.at, a.name, a.at)
		}
	}
	return nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{collective.ErrInvalidArgument}, args...)...)
}
