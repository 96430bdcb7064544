package plan

// Limits are the capacities of an executor. Validate rejects a plan that exceeds one.
type Limits struct {
	Ranks             int   // of a plan
	ThreadBlocks      int   // per rank
	ThreadsPerBlock   int   // the same for all blocks
	Ops               int   // per thread block, bodies of pipelines included
	ChannelsPerBlock  int   // per type
	ChannelsPerOp     int   // that one signal or wait names
	BuffersPerOp      int   // of sources, and of destinations
	RemotePerBlock    int   // remote buffers per thread block and access type
	RemoteBuffers     int   // per rank
	ChannelsPerRank   int   // per type
	Barriers          int   // ids per rank
	Semaphores        int   // per rank
	Hooks             int   // per rank
	SemaphoresPerOp   int   // that one acquire or release names
	Chunks            int   // per buffer
	Slices            int   // thread blocks that share one op
	SemaphoreValue    int   // the largest initial value
	Alignment         int64 // the largest, in bytes
	Iterations        int   // of one pipeline
	NameBytes         int   // of a plan's name
	FileBytes         int   // of a plan's JSON
	PostcondTerms     int   // contributions that all results name
	TotalOps          int   // in the whole plan
	TotalOperands     int   // chunks named by all ops of the plan
	ThreadServesEntry bool  // entries per op may not exceed the threads of a block
	MaxOffset         int64 // largest byte offset that the executor can address
}

// Capacity is the limits of goccl's executors.
var Capacity = Limits{
	Ranks:             8192,
	ThreadBlocks:      1024,
	ThreadsPerBlock:   1024,
	Ops:               16384,
	ChannelsPerBlock:  256,
	ChannelsPerOp:     256,
	BuffersPerOp:      256,
	RemotePerBlock:    1024,
	RemoteBuffers:     24576,
	ChannelsPerRank:   65536,
	Barriers:          256,
	Semaphores:        256,
	Hooks:             256,
	SemaphoresPerOp:   256,
	Chunks:            1 << 20,
	Slices:            1024,
	SemaphoreValue:    1 << 20,
	Alignment:         1 << 20,
	Iterations:        1 << 31,
	NameBytes:         256,
	FileBytes:         512 << 20,
	PostcondTerms:     1 << 22,
	TotalOps:          1 << 23,
	TotalOperands:     1 << 25,
	ThreadServesEntry: true,
	MaxOffset:         1 << 62,
}

// Portable is the limits of MSCCL++'s executor, which does not check most of them: a plan within Portable runs on both.
var Portable = portable()

func portable() Limits {
	l := Capacity
	l.Ops, l.ChannelsPerBlock, l.ChannelsPerOp, l.BuffersPerOp, l.RemotePerBlock = 64, 16, 8, 10, 16
	l.Barriers, l.Semaphores, l.Hooks, l.SemaphoresPerOp = 16, 16, 0, 16
	l.Iterations, l.MaxOffset = 1<<15, 1<<32-1
	return l
}
