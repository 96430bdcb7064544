package cuda

import "sync/atomic"

// Use is the part of the GPU that work took.
type Use struct {
	Blocks int  // of the widest launch
	Copies bool // copies were enqueued
}

// use collects a Device's Use.
type use struct {
	blocks atomic.Uint32
	copies atomic.Bool
}

// TakeUse returns the Use of the work that was enqueued on all streams of d since the last call, captured work
// included, but not what graphs replayed. Concurrent launches may count for either call.
func (d *Device) TakeUse() Use { return Use{int(d.use.blocks.Swap(0)), d.use.copies.Swap(false)} }

func (u *use) launched(cfg *Config) {
	if n := cfg.Grid[0] * cfg.Grid[1] * cfg.Grid[2]; n > u.blocks.Load() {
		u.blocks.Store(n)
	}
}

func (u *use) copied() {
	if !u.copies.Load() {
		u.copies.Store(true)
	}
}
