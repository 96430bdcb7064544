package hosttest

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccl/goccl/internal/setting"
)

// bulkEdits put bulk.hpp in the place of PTX. They hold its whole text, so another instruction needs another edit.
var bulkEdits = []edit{
	{"goccl/bulk.cuh", "#if GOCCL_CUDA && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)", "#if 1"},
	{"goccl/bulk.cuh", "return static_cast<uint32_t>(__cvta_generic_to_shared(p));", "return bulk::sharedAddress(p);"},
	{"goccl/bulk.cuh", `asm volatile("fence.proxy.async;" ::: "memory");`,
		"bulk::fence(bulk::shared), bulk::fence(bulk::global);"},
	{"goccl/bulk.cuh", `asm volatile("fence.proxy.async.shared::cta;" ::: "memory");`, "bulk::fence(bulk::shared);"},
	{"goccl/bulk.cuh",
		`asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(&word)), "r"(arrivals) : "memory");`,
		"bulk::barrierInit(sharedAddress(&word), arrivals);"},
	{"goccl/bulk.cuh", `asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(sharedAddress(&word)) : "memory");`,
		"bulk::barrierInvalidate(sharedAddress(&word));"},
	{"goccl/bulk.cuh",
		`asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sharedAddress(&word)), "r"(bytes)
                 : "memory");`, "bulk::barrierArrive(sharedAddress(&word), bytes);"},
	{"goccl/bulk.cuh", `asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sharedAddress(&word)) : "memory");`,
		"bulk::barrierArrive(sharedAddress(&word));"},
	{"goccl/bulk.cuh", `asm volatile(
        "{\n\t.reg .pred q;\n\tmbarrier.try_wait.parity.shared::cta.b64 q, [%1], %2;\n\tselp.u32 %0, 1, 0, q;\n\t}"
        : "=r"(done)
        : "r"(sharedAddress(&word)), "r"(parity)
        : "memory");`, "done = bulk::barrierPoll(sharedAddress(&word), parity);"},
	{"goccl/bulk.cuh", `asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");`, ""},
	{"goccl/bulk.cuh",
		`asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   sharedAddress(shared)),
               "l"(global), "r"(bytes), "r"(sharedAddress(&barrier->word))
               : "memory");`, "bulk::load(sharedAddress(shared), global, bytes, sharedAddress(&barrier->word));"},
	{"goccl/bulk.cuh",
		`asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), ` +
			`"r"(sharedAddress(shared)),
               "r"(bytes)
               : "memory");`, "bulk::store(global, sharedAddress(shared), bytes);"},
	{"goccl/bulk.cuh", `asm volatile("cp.async.bulk.commit_group;" ::: "memory");`, "bulk::commit();"},
	{"goccl/bulk.cuh", `asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");`,
		"bulk::wait(Pending, false);"},
	{"goccl/bulk.cuh", `asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");`,
		"bulk::wait(Pending, true);"},

	// Shared memory.
	{"collective/direct.cuh", "extern __shared__ __align__(128) uint8_t directMemory[];",
		"#define directMemory bulk::dynamicShared()"},
	{"collective/stream.cuh", "extern __shared__ __align__(128) uint8_t streamMemory[];",
		"#define streamMemory ::bulk::dynamicShared()"},
	{"collective/direct_reduce.cuh",
		"__shared__ BulkBarrier full[directStages], empty[directStages], summed[directSums], stored[directSums];",
		`BulkBarrier(&full)[directStages] = bulk::staticShared<BulkBarrier, directStages>(0);
    BulkBarrier(&empty)[directStages] = bulk::staticShared<BulkBarrier, directStages>(8 * directStages);
    BulkBarrier(&summed)[directSums] = bulk::staticShared<BulkBarrier, directSums>(16 * directStages);
    BulkBarrier(&stored)[directSums] =
        bulk::staticShared<BulkBarrier, directSums>(16 * directStages + 8 * directSums);`},
	{"collective/direct_move.cuh",
		"BulkBarrier* full = static_cast<BulkBarrier*>(sharedMemory(sizeof(BulkBarrier) * (stages)));",
		"BulkBarrier(&full)[stages] = bulk::staticShared<BulkBarrier, stages>(0);"},
}

// bulkSizes: a warp has two threads, and a block two warps of workers. Reductions have 2 to 5 stages, moves 4.
var bulkSizes = []size{
	{"goccl/pipe.cuh", "pipeSignalers", "warpSize"},
	{"collective/direct.cuh", "directShared", "1024"},
	{"collective/direct.cuh", "pullBytes", "256"},
	{"collective/direct.cuh", "pushChunk", "256"},
	{"collective/p2p.cuh", "p2pUnits", "64"},
	{"collective/stream.cuh", "streamChannels", "2"},
	{"collective/stream.cuh", "streamRingBytes", "384"},
	{"collective/stream.cuh", "streamPieceBytes", "64"},
	{"collective/stream.cuh", "streamLarge", "3000"},
}

// bulkMutations break the pipelines. Each of their programs must notice, whatever the seed.
var bulkMutations = []mutation{
	// Reductions: the loader.
	{"stage not free", "reduce scatter", edit{"collective/direct_reduce.cuh",
		"if (load.lap > 0) wait(empty[", `if (load.lap > 0 && !mutated("stage not free")) wait(empty[`}},
	{"loads not fenced", "reduce", edit{"collective/direct_reduce.cuh", "fenceProxyAsync();\n      for",
		`if (!mutated("loads not fenced")) fenceProxyAsync();
      for`}},
	{"too few bytes", "reduce", edit{"collective/direct_reduce.cuh", "arriveAndExpect(a.nranks * length);",
		`arriveAndExpect((a.nranks - mutated("too few bytes")) * length);`}},

	// The workers.
	{"stage not full", "reduce", edit{"collective/direct_reduce.cuh", "wait(full[load.place], load.lap);",
		`if (!mutated("stage not full")) wait(full[load.place], load.lap);`}},
	{"place not free", "reduce", edit{"collective/direct_reduce.cuh", "if (all() && store.lap > 0) wait(",
		`if (all() && store.lap > 0 && !mutated("place not free")) wait(`}},
	{"sums not fenced", "reduce", edit{"collective/direct_reduce.cuh", "if (all()) fenceProxyAsyncShared();",
		`if (all() && !mutated("sums not fenced")) fenceProxyAsyncShared();`}},
	{"lanes not awaited", "reduce", edit{"collective/direct_reduce.cuh", "__syncwarp();",
		`if (!mutated("lanes not awaited")) __syncwarp();`}},
	{"empty before the sum", "reduce scatter", edit{"collective/direct_reduce.cuh",
		"for (uint32_t i = threadIdx.x * 16; i < length;",
		`if (mutated("empty before the sum") && threadIdx.x % warpSize == 0) empty[load.place].arrive();
        for (uint32_t i = threadIdx.x * 16; i < length;`}},
	{"", "", edit{"collective/direct_reduce.cuh", "empty[load.place].arrive();\n        if (all()) summed",
		`if (!mutated("empty before the sum")) empty[load.place].arrive();
        if (all()) summed`}},

	// The storer.
	{"sums not there", "reduce", edit{"collective/direct_reduce.cuh", "wait(summed[store.place], store.lap);",
		`if (!mutated("sums not there")) wait(summed[store.place], store.lap);`}},
	{"place still read", "reduce", edit{"collective/direct_reduce.cuh", "bulkWaitSource<reading>();",
		`if (!mutated("place still read")) bulkWaitSource<reading>();`}},
	{"place freed too early", "reduce", edit{"collective/direct_reduce.cuh",
		"if (store.lap > 0 || store.place >= reading) stored[(store.place + directSums - reading) %",
		`const uint32_t back = reading - mutated("place freed too early");
        if (store.lap > 0 || store.place >= back) stored[(store.place + directSums - back) %`}},
	{"told before the stores", "reduce", edit{"collective/direct_reduce.cuh", "bulkWait<0>();",
		`if (mutated("told before the stores"))
        bulkWaitSource<0>();
      else
        bulkWait<0>();`}},
	{"ended before the stores", "reduce", edit{"collective/direct_reduce.cuh", `if (mutated("told before the stores"))`,
		`if (mutated("ended before the stores")) {
      } else if (mutated("told before the stores"))`}},

	// Their barriers. The fence behind their init is not missed: the loader's own fence comes later.
	{"barriers not shown", "reduce", edit{"collective/direct_reduce.cuh", "__syncthreads();\n    Cursor load{stages}",
		`if (!mutated("barriers not shown")) __syncthreads();
    Cursor load{stages}`}},
	{"barriers in use", "reduce", edit{"collective/direct_reduce.cuh",
		"__syncthreads();\n    if (threadIdx.x == 0) {\n      for (uint32_t i = 0; i < stages; ++i) full[i].inv",
		`if (!mutated("barriers in use")) __syncthreads();
    if (threadIdx.x == 0) {
      for (uint32_t i = 0; i < stages; ++i) full[i].inv`}},
	{"barriers kept", "reduce", edit{"collective/direct_reduce.cuh", "++i) full[i].invalidate(), empty[i]",
		`++i) if (!mutated("barriers kept")) full[i].invalidate(), empty[i]`}},

	// Moves.
	{"moves not fenced", "move", edit{"collective/direct_move.cuh", "fenceProxyAsync();",
		`if (!mutated("moves not fenced")) fenceProxyAsync();`}},
	{"barriers of moves not fenced", "move", edit{"collective/direct_move.cuh", "fenceBarrierInit();",
		`if (!mutated("barriers of moves not fenced")) fenceBarrierInit();`}},
	{"moved before it is there", "move", edit{"collective/direct_move.cuh", "return full[s].poll(",
		`return mutated("moved before it is there") || full[s].poll(`}},
	{"stage of a move still read", "move", edit{"collective/direct_move.cuh", "bulkWaitSource<1>();",
		`if (!mutated("stage of a move still read")) bulkWaitSource<1>();`}},
	{"no stage to spare", "move", edit{"collective/direct_move.cuh", "while (loaded < stages - 2 &&",
		`while (loaded < stages - (mutated("no stage to spare") ? 0 : 2) &&`}},
	{"told before the moves", "move", edit{"collective/direct_move.cuh", "bulkWait<0>();",
		`if (mutated("told before the moves"))
      bulkWaitSource<0>();
    else
      bulkWait<0>();`}},
	{"ended before the moves", "move", edit{"collective/direct_move.cuh", `if (mutated("told before the moves"))`,
		`if (mutated("ended before the moves")) {
    } else if (mutated("told before the moves"))`}},

	// Streams.
	{"messages not fenced", "streams", edit{"collective/stream.cuh", "fenceProxyAsync();",
		`if (!mutated("messages not fenced")) fenceProxyAsync();`}},
	{"told before the message", "streams", edit{"collective/stream.cuh", "bulk.finish();",
		`mutated("told before the message") ? bulkWaitSource<0>() : bulk.finish();`}},
	{"signal before the copies", "streams", edit{"collective/stream.cuh",
		"return !__syncthreads_or(s != statusOk);\n  }\n};",
		`return mutated("signal before the copies") || !__syncthreads_or(s != statusOk);
  }
};`}},
	{"end of a message lost", "streams", edit{"collective/stream.cuh", "bytes - vectors, channel",
		`bytes - vectors - (mutated("end of a message lost") && vectors < bytes), channel`}},

	// BulkPipe.
	{"pipe before it is there", "pipe", edit{"goccl/bulk.cuh", "barriers[s].wait((phases >> s) & 1, abort);",
		`mutated("pipe before it is there") ? statusOk : barriers[s].wait((phases >> s) & 1, abort);`}},
	{"stage of a pipe still read", "pipe", edit{"goccl/bulk.cuh", "bulkWaitSource<2>();",
		`if (!mutated("stage of a pipe still read")) bulkWaitSource<2>();`}},
	{"stage of an earlier copy", "pipe", edit{"goccl/bulk.cuh", "bulkWaitSource<0>();",
		`if (!mutated("stage of an earlier copy")) bulkWaitSource<0>();`}},
	{"pipe not finished", "pipe", edit{"goccl/bulk.cuh", "void finish() { bulkWait<0>(); }",
		`void finish() { mutated("pipe not finished") ? bulkWaitSource<0>() : bulkWait<0>(); }`}},
}

var streamFiles = []string{"collective/stream.cuh", "goccl/pipe.cuh"}

// bulkProgram builds the program of reductions and moves by bulk copies.
func bulkProgram(t *testing.T, long bool) string {
	t.Helper()
	edits := slices.Concat(bulkEdits, mutationEdits(bulkMutations))
	for _, e := range unordered {
		if strings.HasPrefix(e.file, "collective/direct") || slices.Contains(streamFiles, e.file) {
			edits = append(edits, e)
		}
	}
	extra := []string{"-DGOCCL_WARP=2", "-I" + editedHeaders(t, bulkSizes, edits)}
	if long {
		extra = append(extra, "-DGOCCL_FULL=1")
	}
	return buildSanitized(t, "direct", extra...)
}

// TestBulk runs small kernels that the emulation must order as PTX does, reductions, moves and streams by bulk copies
// on ranks that drift apart, and pipes, and then each of them broken. With GOCCL_FULL=1 it has all types and more
// runs.
func TestBulk(t *testing.T) {
	t.Parallel()
	long := setting.Lenient().Full != ""
	program, runs, launches := bulkProgram(t, long), 1, "6"
	if long {
		runs, launches = 6, "40"
	}
	seed := func() string { return strconv.FormatUint(uint64(rand.Uint32()), 10) }
	t.Run("litmus", func(t *testing.T) {
		t.Parallel()
		number := 0
		for ; ; number++ {
			out, ok := runSanitized(t, "symbolize=0", program, "litmus", strconv.Itoa(number))
			what, _, found := strings.Cut(out, "\n")
			if !found {
				break
			}
			if races := strings.HasSuffix(what, ": race"); ok == races || races != strings.Contains(out, "data race") {
				t.Errorf("%d, %s", number, out)
			}
		}
		if number < 32 {
			t.Errorf("%d tests: want 32 at least", number)
		}
	})
	for _, name := range []string{"reduce", "scatter", "move", "streams", "pipe"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := []string{"acquire", "release"}
			if name == "pipe" {
				broken = nil // it has no flags
			}
			for _, m := range bulkMutations {
				if slices.Contains(strings.Fields(m.programs), name) {
					broken = append(broken, m.name)
				}
			}
			for range runs {
				s := seed()
				if out, ok := run(t, program, name, s, launches); !ok {
					t.Fatalf("as it is, seed %s:\n%s", s, out)
				}
				for _, m := range broken {
					if !caught(t, program, func() []string { return []string{name, seed(), launches, m} }) {
						t.Errorf("broken (%s), it passes", m)
					}
				}
			}
		})
	}
}
