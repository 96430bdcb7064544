package launcher

import "github.com/goccl/goccl/device/cuda"

// OverlapThreads is the constant of kernels/collective/ticket.cuh: a launch of up to so many threads may take its place
// on the GPU before the launch ahead of it has ended. That is a tenth of what an H100 holds: a larger launch that waits
// would keep kernels of other communicators off the GPU, for which a peer may wait.
const OverlapThreads = 20480

// Overlap lets a launch of one dimension start before the previous kernel of its stream has ended, if it is small
// enough.
func Overlap(cfg *cuda.Config) {
	if cfg.Grid[0]*cfg.Block[0] <= OverlapThreads {
		cfg.Flags |= cuda.LaunchOverlapPrevious
	}
}
