package core

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/fused"
)

const kindFusion = 0x0c81

// Fusion is a workspace of a communicator.
type Fusion = owned[*goccl.Fusion]

var fusions = ownedTable[*goccl.Fusion]{table[*Fusion]{kind: kindFusion, name: "fusion"}}

// fusedAlgorithms are the names of GOCCL_FUSION_….
var fusedAlgorithms = []string{"", fused.OneShot, fused.TwoShot, fused.Apart}

func FusionCreate(a Active, cfg *FusionConfig) (Handle, error) {
	var own goccl.FusionConfig
	if cfg != nil {
		if err := sized("goccl_fusion_config", cfg.Size, unsafe.Sizeof(*cfg)); err != nil {
			return 0, err
		}
		own.RowBytes = int64(min(cfg.RowBytes, math.MaxInt64))
		own.ScratchBytes = int64(min(cfg.ScratchBytes, math.MaxInt64))
	}
	f, err := a.inner.NewFusion(context.Background(), own)
	if err != nil {
		return 0, err
	}
	return fusions.grant(a.c, f)
}

// sized checks the size field of a struct.
func sized(name string, got uint64, want uintptr) error {
	if got < uint64(want) {
		return fmt.Errorf("%w: %s.size is %d, not %d: set it to sizeof(%s)", ErrInvalidArgument, name, got, want, name)
	}
	return nil
}

func FusionAllReduce(f *Fusion, q *FusedRequest) error {
	if q == nil {
		return fmt.Errorf("%w: the request is NULL", ErrInvalidArgument)
	}
	if err := sized("goccl_fused_request", q.Size, unsafe.Sizeof(*q)); err != nil {
		return err
	}
	if q.Algorithm >= uint32(len(fusedAlgorithms)) {
		return fmt.Errorf("%w: goccl_fused_request.algorithm is %d", ErrInvalidArgument, q.Algorithm)
	}
	s, err := f.c.stream(q.Stream)
	if err != nil {
		return err
	}
	return f.inner.AllReduce(goccl.FusedRequest{
		Tokens: int64(min(q.Tokens, math.MaxInt64)), Hidden: int64(min(q.Hidden, math.MaxInt64)),
		Type: datatype.Type(min(q.Type, uint32(datatype.NumTypes))), Algorithm: fusedAlgorithms[q.Algorithm],
		Input: device.Ptr(q.Input), Sum: device.Ptr(q.Sum), Residual: device.Ptr(q.Residual),
		ResidualOut: device.Ptr(q.ResidualOut), Weight: device.Ptr(q.Weight), Epsilon: q.Epsilon, Norm: device.Ptr(q.Norm),
		Quantisation: fused.Quantisation(min(q.Quantisation, math.MaxUint8)),
		QuantType:    datatype.Type(min(q.QuantType, uint32(datatype.NumTypes))), Quant: device.Ptr(q.Quant),
		Scale: device.Ptr(q.Scale), ScaleOut: device.Ptr(q.ScaleOut), DividedResidual: q.DividedResidual != 0, Stream: s})
}

func FusionTune(f *Fusion, tokens, hidden uint64, typ uint32) error {
	return f.inner.Tune(context.Background(), goccl.FusionShape{Tokens: int64(min(tokens, math.MaxInt64)),
		Hidden: int64(min(hidden, math.MaxInt64)), Type: datatype.Type(min(typ, uint32(datatype.NumTypes)))})
}

// FusionDestroy frees a workspace. Freeing it again, or after its communicator, is harmless.
func FusionDestroy(h Handle) error { return fusions.end(h) }
