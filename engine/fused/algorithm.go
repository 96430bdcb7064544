package fused

import (
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/engine/nvlink"
)

// Lamport is the plain all-reduce by the packets of a Workspace: one_shot_lamport of engine/nvlink.
type Lamport struct{ w *Workspace }

var _ nvlink.Lamport = (*Lamport)(nil)

// Lamport returns the workspace's plain all-reduce. The workspace outlives it.
func (w *Workspace) Lamport() (*Lamport, error) {
	if w.gpu == nil || w.gpu.arena == nil {
		return nil, fmt.Errorf("%w: packets without flags need GPUs that reach each other's memory",
			collective.ErrUnsupported)
	}
	return &Lamport{w}, nil
}

// lamportThreads is the largest size of its blocks.
const lamportThreads = 512

// vectors is the number of 16-byte vectors for which a block of that many threads has room.
func (l *Lamport) vectors(threads int64) int64 { return l.w.cfg.RowBytes / 16 / threads * threads }

// MostBytes implements nvlink.Lamport. Blocks of any size have room for half of their slots at least.
func (l *Lamport) MostBytes() int64 { return l.bytes(l.w.gpu.blocks) }

// bytes is the size for which that many blocks have room.
func (l *Lamport) bytes(blocks int64) int64 { return l.vectors(lamportThreads) / 2 * 16 * blocks }

// Takes implements nvlink.Lamport.
func (l *Lamport) Takes(r *collective.Request, blocks int64) bool {
	return (r.Type == datatype.Float16 || r.Type == datatype.Bfloat16 || r.Type == datatype.Float32) &&
		(r.Op == datatype.Sum || r.Op == datatype.Avg) && r.Bytes() > 0 && r.Bytes() <= l.bytes(min(blocks, l.w.gpu.blocks))
}

// Launch implements nvlink.Lamport. A thread carries 16 bytes.
func (l *Lamport) Launch(r *collective.Request, s *cuda.Stream, threads int, blocks int64) error {
	g := l.w.gpu
	units := (r.Bytes() + 15) / 16
	t := min(int64(threads), lamportThreads, (units+warp-1)&^(warp-1))
	blocks = min(g.blocks, blocks, (units+t-1)/t)
	g.args.input, g.args.sum, g.args.bytes = uint64(r.Send), uint64(r.Recv), uint64(r.Bytes())
	g.args.average = 0
	if r.Op == datatype.Avg {
		g.args.average = 1
	}
	return g.engine.Submit(s, g.reduce[typeIndex(r.Type)], int(blocks), int(t), launcher.Raw(g.args))
}
