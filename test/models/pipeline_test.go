package models

import "testing"

// The pipeline of a block that adds chunks (kernels/collective/direct_reduce.cuh): a loader, warps of workers and a
// storer, which wait for phases of barriers by their parity. Loads and stores are copies that are made later, a load in
// two parts, and a copy sees what a warp has written after a fence, or at any time. Property: each chunk is added when
// it is there and stored when its sum is, the block's peers are told after the last store, and nobody waits for ever.

const (
	pipelineChunks  = 6
	pipelineStages  = 2
	pipelineSums    = 4
	pipelineReading = pipelineSums - 2
	pipelineWarps   = 2
	pipelineParts   = 2 // of a load
)

// pipelineBarrier is an mbarrier: pending arrivals and bytes are still to come in its phase.
type pipelineBarrier struct{ phase, pending, bytes int8 }

// Numbers of chunks are one more than their index; 0 is none.
type pipelineState struct {
	full, empty    [pipelineStages]pipelineBarrier
	summed, stored [pipelineSums]pipelineBarrier
	stage          [pipelineStages][pipelineParts]int8 // the chunk that is there
	sums, shown    [pipelineSums][pipelineWarps]int8   // the chunk that was added, as the warps and as copies see it
	flying         [pipelineChunks]uint8               // a bit for each part of a load that is under way
	loaded         int8                                // chunks that the loader has taken up
	added          [pipelineWarps]int8                 // chunks that a warp has done with
	adding         [pipelineWarps]uint8                // of its next: 1: its waits are over, 2: it has added
	storing        bool                                // the storer has begun the store of its next chunk
	committed      int8                                // chunks that the storer has done with
	reads, arrives [pipelineChunks]bool                // stores that have read their sums, and that have ended
	told           bool
	wrong          string
}

type pipelineFaults struct {
	stageNotFree, stageNotFull, placeNotFree, sumsNotThere bool // a wait that is left out
	noFence                                                bool // of the workers
	noRead                                                 bool // the storer does not wait until stores have read
	oneTooEarly                                            bool // it gives back a place that may still be read
	notStored                                              bool // it does not wait for its stores before the end
	emptyFirst                                             bool // a warp gives a stage back, and then adds
	expected                                               int8 // more or less bytes than a load brings
	sameLap                                                bool // the loader waits for the phase of the same lap
}

// arrive counts an arrival, or bytes that have come, and completes the phase if nothing is missing.
func (s *pipelineState) arrive(b *pipelineBarrier, count, arrivals, bytes int8) {
	if b.pending < arrivals {
		s.wrong = "more arrivals than a phase has"
		return
	}
	b.pending -= arrivals
	b.bytes += bytes
	if b.pending == 0 && b.bytes == 0 {
		b.phase, b.pending = b.phase+1, count
	}
}

// over reports whether the phase of a lap is, as its parity says.
func (b pipelineBarrier) over(lap int8) bool { return b.phase&1 != lap&1 }

func pipeline(f pipelineFaults) *system[pipelineState] {
	start := pipelineState{}
	for i := range pipelineStages {
		start.full[i].pending, start.empty[i].pending = 1, pipelineWarps
	}
	for i := range pipelineSums {
		start.summed[i].pending, start.stored[i].pending = pipelineWarps, 1
	}
	return &system[pipelineState]{start: start,
		next: func(s pipelineState, add adder[pipelineState]) {
			if s.wrong != "" || s.told {
				return
			}
			if k := s.loaded; k < pipelineChunks {
				i, lap := k%pipelineStages, k/pipelineStages
				awaited := lap - 1
				if f.sameLap {
					awaited = lap
				}
				if lap == 0 || f.stageNotFree || s.empty[i].over(awaited) {
					to := s
					to.arrive(&to.full[i], 1, 1, pipelineParts+f.expected)
					to.flying[k], to.loaded = 1<<pipelineParts-1, k+1
					add(to, "the loader loads chunk %d", k)
				}
			}
			for k := range int8(pipelineChunks) {
				for part := range pipelineParts {
					if s.flying[k]&(1<<part) != 0 {
						to := s
						to.flying[k] &^= 1 << part
						to.stage[k%pipelineStages][part] = k + 1
						to.arrive(&to.full[k%pipelineStages], 1, 0, -1)
						add(to, "part %d of chunk %d comes", part, k)
					}
				}
				if k < s.committed || k == s.committed && s.storing {
					if !s.reads[k] {
						to := s
						to.reads[k] = true
						for _, chunk := range s.shown[k%pipelineSums] {
							if chunk != k+1 {
								to.wrong = "a store reads other sums"
							}
						}
						add(to, "the store of chunk %d reads", k)
					} else if !s.arrives[k] {
						to := s
						to.arrives[k] = true
						add(to, "the store of chunk %d ends", k)
					}
				}
			}
			for w := range pipelineWarps {
				k := s.added[w]
				if k == pipelineChunks {
					continue
				}
				i, place, lap := k%pipelineStages, k%pipelineSums, k/pipelineSums
				to := s
				switch s.adding[w] {
				case 0:
					if !f.stageNotFull && !s.full[i].over(k/pipelineStages) ||
						lap > 0 && !f.placeNotFree && !s.stored[place].over(lap-1) {
						continue
					}
					if f.emptyFirst {
						to.arrive(&to.empty[i], pipelineWarps, 1, 0)
					}
					to.adding[w] = 1
					add(to, "warp %d begins chunk %d", w, k)
				case 1:
					for _, chunk := range s.stage[i] {
						if chunk != k+1 {
							to.wrong = "a warp adds another chunk"
						}
					}
					to.sums[place][w], to.adding[w] = k+1, 2
					add(to, "warp %d adds chunk %d", w, k)
				case 2:
					if !f.noFence {
						to.shown[place][w] = s.sums[place][w]
					}
					if !f.emptyFirst {
						to.arrive(&to.empty[i], pipelineWarps, 1, 0)
					}
					to.arrive(&to.summed[place], pipelineWarps, 1, 0)
					to.added[w], to.adding[w] = k+1, 0
					add(to, "warp %d arrives with chunk %d", w, k)
				}
			}
			for place := range pipelineSums {
				for w := range pipelineWarps {
					if s.shown[place][w] != s.sums[place][w] {
						to := s
						to.shown[place][w] = s.sums[place][w]
						add(to, "copies see what warp %d has put at place %d", w, place)
					}
				}
			}
			if k := s.committed; k < pipelineChunks {
				back := int8(pipelineReading)
				if f.oneTooEarly {
					back--
				}
				switch place := k % pipelineSums; {
				case !s.storing && (f.sumsNotThere || s.summed[place].over(k/pipelineSums)):
					to := s
					to.storing = true
					add(to, "the storer stores chunk %d", k)
				case s.storing && (f.noRead || k < pipelineReading || s.reads[k-pipelineReading]):
					to := s
					if k >= back {
						to.arrive(&to.stored[(k-back)%pipelineSums], 1, 1, 0)
					}
					to.storing, to.committed = false, k+1
					add(to, "the storer has done with chunk %d", k)
				}
			}
			ended := s.loaded == pipelineChunks && s.committed == pipelineChunks
			for _, k := range s.added {
				ended = ended && k == pipelineChunks
			}
			if ended && (f.notStored || s.arrives == allStored) {
				to := s
				if to.told = true; s.arrives != allStored {
					to.wrong = "peers are told before the sums are there"
				}
				add(to, "the block ends")
			}
		},
		safe: func(s pipelineState) string { return s.wrong },
		done: func(s pipelineState) bool { return s.told }}
}

var allStored = [pipelineChunks]bool{true, true, true, true, true, true}

func TestPipeline(t *testing.T) {
	holds(t, pipeline(pipelineFaults{}), map[string]*system[pipelineState]{
		"the loader does not wait: more arrivals":       pipeline(pipelineFaults{stageNotFree: true}),
		"warps do not wait for loads: another chunk":    pipeline(pipelineFaults{stageNotFull: true}),
		"warps do not wait for places: other sums":      pipeline(pipelineFaults{placeNotFree: true}),
		"the storer does not wait: other sums":          pipeline(pipelineFaults{sumsNotThere: true}),
		"no fence: other sums":                          pipeline(pipelineFaults{noFence: true}),
		"no wait for what stores read: other sums":      pipeline(pipelineFaults{noRead: true}),
		"a place one chunk too early: other sums":       pipeline(pipelineFaults{oneTooEarly: true}),
		"no wait for the stores: peers are told":        pipeline(pipelineFaults{notStored: true}),
		"a stage before it is read: another chunk":      pipeline(pipelineFaults{emptyFirst: true}),
		"half of a load expected: another chunk":        pipeline(pipelineFaults{expected: -1}),
		"more than a load expected: nothing can happen": pipeline(pipelineFaults{expected: 1}),
		"another parity: more arrivals":                 pipeline(pipelineFaults{sameLap: true}),
	})
}
