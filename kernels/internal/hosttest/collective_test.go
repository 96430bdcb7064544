package hosttest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// edit replaces a text of a collective header, which must be there once.
type edit struct {
	file, old, new string
}

// size sets a constant.
type size struct {
	file, name, value string
}

// sizes are small here: rings go round sooner, and the emulation has a system thread for every thread of a block.
var sizes = []size{
	{"p2p.cuh", "p2pChannels", "2"},
	{"p2p.cuh", "p2pUnits", "64"},
	{"stream.cuh", "streamChannels", "2"},
	{"stream.cuh", "streamRingBytes", "384"},
	{"stream.cuh", "streamPieceBytes", "64"},
	{"stream.cuh", "streamLarge", "3000"},
	{"stream.cuh", "streamTellers", "1"},
	{"ring.cuh", "ringChannels", "4"},
	{"ring.cuh", "ringTellers", "1"},
}

// unordered are places that rely on what the GPU does and the memory model does not say.
var unordered = []edit{
	// A block without units stores the epoch that it has loaded, with no barrier in between: the same value.
	{"kernels.cuh", "if (threadIdx.x == 0) a.epochs[", "if (threadIdx.x == 0 && a.epochs[blockIdx.x * epochStride] != epoch) a.epochs["},
	// The limit is relaxed: loads of the piece have returned their values by then, and what has been read cannot be overwritten any more.
	{"stream.cuh", "storeRelaxed<Scope::sys>(limit,", "storeRelease<Scope::sys>(limit,"},
	{"ring.cuh", "storeRelaxed<Scope::sys>(limit(", "storeRelease<Scope::sys>(limit("},
	// Its polls let others run where they fail.
	{"ring.cuh", "return (room = loadRelaxed<Scope::sys>(word)) > sent;", "return polled((room = loadAcquire<Scope::sys>(word)) > sent);"},
	{"ring.cuh", "return (arrived = loadAcquire<Scope::sys>(word)) > received;", "return polled((arrived = loadAcquire<Scope::sys>(word)) > received);"},
	{"ring_fold.cuh", "storeRelaxed<Scope::sys>(limit(", "storeRelease<Scope::sys>(limit("},
	{"ring_fold.cuh", "return loadRelaxed<Scope::sys>(word) > step;", "return polled(loadAcquire<Scope::sys>(word) + 0 > step);"},
	{"ring_fold.cuh", "return loadAcquire<Scope::sys>(word) > step;", "return polled(loadAcquire<Scope::sys>(word) > step);"},
	// And a delay: ranks that compare counts late find them all the same.
	{"all_to_all_v.cuh", "const LL16Packet* in = countPackets(", "if (p != a.rank && (p + epoch) % 3 == 0) sleepNs(20000000);\n    const LL16Packet* in = countPackets("},
}

// mutations are lines that can be broken when the program starts. Each must be noticed.
var mutations = []struct {
	name, program string
	edit
}{
	{"one parity", "reduce", edit{"args.cuh", "(epoch & 1)", "(epoch & (mutated(\"one parity\") ? 0u : 1u))"}},
	{"same epoch", "reduce", edit{"kernels.cuh", "epoch = nextEpoch(epoch);", "if (!mutated(\"same epoch\")) epoch = nextEpoch(epoch);"}},
	{"epoch not kept", "move", edit{"kernels.cuh", "epochStride] = epoch;", "epochStride] = epoch - (mutated(\"epoch not kept\") ? 1 : 0);"}},
	{"epoch zero", "reduce", edit{"args.cuh", "return e == 0xffffffffu ?", "return e == 0xffffffffu && !mutated(\"epoch zero\") ?"}},
	{"no token", "move", edit{"rooted.cuh", "if (!token) return statusOk;", "if (!token || mutated(\"no token\")) return statusOk;"}},
	{"no credit", "messages", edit{"p2p.cuh", "static_cast<int32_t>(k - taken) <", "mutated(\"no credit\") || static_cast<int32_t>(k - taken) <"}},
	{"credit before the barrier", "messages", edit{"p2p.cuh", "if (__syncthreads_or(s != statusOk)) return statusAborted;",
		"if (mutated(\"credit before the barrier\") ? s != statusOk : __syncthreads_or(s != statusOk)) return statusAborted;"}},
	{"one parity of counts", "no-counts", edit{"all_to_all_v.cuh", "(epoch & 1)", "(mutated(\"one parity of counts\") ? 0u : epoch & 1)"}},
	{"epoch of counts not kept", "device-counts", edit{"all_to_all_v.cuh", "*counter = epoch;", "*counter = epoch - mutated(\"epoch of counts not kept\");"}},
	{"one channel of two", "device-counts", edit{"all_to_all_v.cuh", "channel += a.channels)", "channel += a.channels + mutated(\"one channel of two\"))"}},
	{"counts not compared", "wrong-counts", edit{"all_to_all_v.cuh", "if (sends != myReceives)", "if (sends != myReceives && !mutated(\"counts not compared\"))"}},
	{"counts not within", "outside-counts", edit{"all_to_all_v.cuh", "a.elements[send] - count;", "a.elements[send] - count + (mutated(\"counts not within\") ? 1u << 30 : 0);"}},
	{"no room", "ring", edit{"ring.cuh", "if (room <= sent &&", "if (room <= sent && !mutated(\"no room\") &&"}},
	{"early flag", "ring", edit{"ring.cuh", "(arrived = loadAcquire<Scope::sys>(word)) >", "(arrived = loadAcquire<Scope::sys>(word)) + mutated(\"early flag\") >"}},
	{"flag before the barrier", "ring", edit{"ring.cuh", "barrierOf(2, blockDim.x);",
		"if (mutated(\"flag before the barrier\") && teller() && (What & ringSend) != 0) storeRelease<Scope::sys>(flag(next), sent + 1);\n      barrierOf(2, blockDim.x);"}},
	{"limit before the barrier", "ring", edit{"ring.cuh", "barrierOf(2, blockDim.x);",
		"if (mutated(\"limit before the barrier\") && teller() && (What & ringReceive) != 0) ++received, allow(), --received;\n      barrierOf(2, blockDim.x);"}},
	{"workers do not wait for each other", "ring", edit{"ring.cuh", "barrierOf(1, workers());", "if (!mutated(\"workers do not wait for each other\")) barrierOf(1, workers());"}},
	{"beyond the end", "ring", edit{"ring.cuh", "received + depth < end ?", "received + depth < end || mutated(\"beyond the end\") ?"}},
	{"FIFOs overlap", "ring", edit{"ring.cuh", "(channel * depth + number % depth)", "(channel * (depth - mutated(\"FIFOs overlap\")) + number % depth)"}},
	{"part lost", "ring", edit{"ring.cuh", "k < ringParts;", "k < ringParts - mutated(\"part lost\");"}},
	{"sent is not kept", "ring", edit{"ring.cuh", "counters()[0] = sent;", "counters()[0] = sent - mutated(\"sent is not kept\");"}},
	{"received is not kept", "ring", edit{"ring.cuh", "counters()[1] = received;", "counters()[1] = received - mutated(\"received is not kept\");"}},
	{"not ended", "ring", edit{"ring.cuh", "(What & ringLast) != 0 ?", "(What & ringLast) != 0 && !mutated(\"not ended\") ?"}},
	{"ended by everyone", "ring", edit{"ring.cuh", ": sum.result();", ": mutated(\"ended by everyone\") ? reducer.end(sum) : sum.result();"}},
	{"not scaled", "ring", edit{"ring.cuh", "reducer.scale(v);", "if (!mutated(\"not scaled\")) reducer.scale(v);"}},
	{"bytes around are written", "ring", edit{"ring.cuh", "in != out && i >= 16", "(in != out || mutated(\"bytes around are written\")) && i >= 16"}},
	{"bytes around are nobody's", "ring", edit{"ring.cuh", "i + 32 <= bytes)", "(i + 32 <= bytes || mutated(\"bytes around are nobody's\")))"}},
	{"moves all the same", "ring-aborted", edit{"ring.cuh", "if (*stop == 0) move<", "if (*stop == 0 || mutated(\"moves all the same\")) move<"}},
	{"goes on", "ring-aborted", edit{"ring.cuh", "if (*stop != 0) return", "if (*stop != 0 && !mutated(\"goes on\")) return"}},
	{"no room for sums", "fold", edit{"ring_fold.cuh", "if (sends && threadIdx.x == 32 %", "if (sends && !mutated(\"no room for sums\") && threadIdx.x == 32 %"}},
	{"early flag of sums", "fold", edit{"ring_fold.cuh", "polled(loadAcquire<Scope::sys>(word) >", "polled(loadAcquire<Scope::sys>(word) + mutated(\"early flag of sums\") >"}},
	{"flag of sums before the barrier", "fold", edit{"ring_fold.cuh", "barrierOf(2, blockDim.x);",
		"if (mutated(\"flag of sums before the barrier\") && ring.teller() && sends) storeRelease<Scope::sys>(flag(to, a.rank), before + turn + 1);\n      barrierOf(2, blockDim.x);"}},
	{"limit of sums before the barrier", "fold", edit{"ring_fold.cuh", "barrierOf(2, blockDim.x);",
		"if (mutated(\"limit of sums before the barrier\") && ring.teller() && receives) allow();\n      barrierOf(2, blockDim.x);"}},
	{"workers do not wait for sums", "fold", edit{"ring_fold.cuh", "barrierOf(1, ring.workers());", "if (!mutated(\"workers do not wait for sums\")) barrierOf(1, ring.workers());"}},
	{"sums beyond the end", "fold", edit{"ring_fold.cuh", "if (allowed == total) return;", "if (allowed == total && !mutated(\"sums beyond the end\")) return;"}},
	{"FIFOs of sums overlap", "fold", edit{"ring_fold.cuh", "(ring.depth * ring.slotBytes)", "(ring.depth * ring.slotBytes - 128 * mutated(\"FIFOs of sums overlap\"))"}},
	{"piece lost", "fold", edit{"ring_fold.cuh", "if (++s.piece != pieces)", "if (++s.piece != pieces - mutated(\"piece lost\"))"}},
	{"steps are not kept", "fold", edit{"ring_fold.cuh", "counters()[2] = before + total;", "counters()[2] = before + total - mutated(\"steps are not kept\");"}},
	{"the ring begins too early", "fold", edit{"ring_fold.cuh", "if (!Fold<R, A>(ring).run(true, home)) return;",
		"if (mutated(\"the ring begins too early\")) ring.open(a.nranks - 1);\n  if (!Fold<R, A>(ring).run(true, home)) return;"}},
	{"sums not ended", "fold", edit{"ring_fold.cuh", "v = reducer.end(sum[j]);", "v = mutated(\"sums not ended\") ? sum[j].result() : reducer.end(sum[j]);"}},
	{"begun with the last", "fold", edit{"ring_fold.cuh", "reducer.begin(sum[j], v.v);", "reducer.begin(sum[j], mutated(\"begun with the last\") ? x[j] : v.v);"}},
	{"what is sent is not scaled", "fold", edit{"ring_fold.cuh", "reducer.scale(v);\n      storeVec", "if (!mutated(\"what is sent is not scaled\")) reducer.scale(v);\n      storeVec"}},
	{"the own is not scaled", "fold", edit{"ring_fold.cuh", "reducer.scale(v);\n        reducer.begin", "if (!mutated(\"the own is not scaled\")) reducer.scale(v);\n        reducer.begin"}},
	{"bytes around the own are written", "fold", edit{"ring_fold.cuh", "own != out && i >= 16", "(own != out || mutated(\"bytes around the own are written\")) && i >= 16"}},
	{"bytes around what is sent are nobody's", "fold", edit{"ring_fold.cuh", "i >= 16 && i + 32 <= given)", "(i >= 16 && i + 32 <= given) || mutated(\"bytes around what is sent are nobody's\"))"}},
	{"folds all the same", "fold-aborted", edit{"ring_fold.cuh", "if (*stop == 0) {", "if (*stop == 0 || mutated(\"folds all the same\")) {"}},
	{"goes on to fold", "fold-aborted", edit{"ring_fold.cuh", "if (*stop != 0) return", "if (*stop != 0 && !mutated(\"goes on to fold\")) return"}},
	{"elsewhere", "streams", edit{"args.cuh", "(word & 0xffffffffffff);", "(word & 0xffffffffffff) + (mutated(\"elsewhere\") ? 16 : 0);"}},
	{"ticket before the barrier", "tickets", edit{"ticket.cuh", "__syncthreads();", "if (!mutated(\"ticket before the barrier\")) __syncthreads();"}},
	{"no copy", "messages", edit{"p2p.cuh", "lane.count; i += 2) {", "lane.count - (mutated(\"no copy\") ? 2u : 0u); i += 2) {"}},
	{"a stale place", "streams", edit{"stream.cuh", "if (direct == 0 && !said) return allow(0);", "if (direct == 0 && (!said || mutated(\"a stale place\"))) return allow(0);"}},
	{"not waiting for what comes straight to its place", "streams", edit{"stream.cuh", "if (direct != 0) return step(", "if (direct != 0 && mutated(\"not waiting for what comes straight to its place\")) return true;\n    if (direct != 0) return step("}},
	{"flag before the data", "streams", edit{"stream.cuh", "copyBytes<4>(to, f.at(j),",
		"if (mutated(\"flag before the data\") && threadIdx.x == 0) storeRelease<Scope::sys>(f.flag, f.number(j + 1));\n        copyBytes<4>(to, f.at(j),"}},
	{"told before the barrier", "streams", edit{"stream.cuh", "barrierOf(2, blockDim.x);", "if (mutated(\"told before the barrier\") && teller()) tell();\n    barrierOf(2, blockDim.x);"}},
	{"moved before the wait", "streams", edit{"stream.cuh", "barrierOf(1, workers());", "if (!mutated(\"moved before the wait\")) barrierOf(1, workers());"}},
	{"beyond the message", "streams", edit{"stream.cuh", "(j + depth < mine ? j + depth : mine)", "(j + depth < mine || mutated(\"beyond the message\") ? j + depth : mine)"}},
	{"more than the ring holds", "streams", edit{"stream.cuh", "(direct != 0 || depth > mine ? mine : depth)", "(direct != 0 || depth > mine || mutated(\"more than the ring holds\") ? mine : depth)"}},
	{"another size of pieces", "messages", edit{"p2p.cuh", "slots) + least - 1)", "slots) + least - 1 - 480 * (mutated(\"another size of pieces\") && a.rank == 0))"}},
}

var reShared = regexp.MustCompile(`__shared__ (\w+) (\w+)\[(\w+)\];`)

// collectiveHeaders writes a copy of the collective headers for the emulation and returns the folder to include from.
func collectiveHeaders(t *testing.T) string {
	t.Helper()
	texts := make(map[string]string)
	paths, err := filepath.Glob("../../collective/*.cuh")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d headers, %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(path)] = reShared.ReplaceAllString(string(text), "$1* $2 = static_cast<$1*>(sharedMemory(sizeof($1) * ($3)));")
	}
	for _, z := range sizes {
		re := regexp.MustCompile(`constexpr uint32_t ` + z.name + ` = [^;]+;`)
		if n := len(re.FindAllString(texts[z.file], -1)); n != 1 {
			t.Fatalf("%s defines %s %d times: want it once; bring collective_test.go up to date", z.file, z.name, n)
		}
		texts[z.file] = re.ReplaceAllString(texts[z.file], "constexpr uint32_t "+z.name+" = "+z.value+";")
	}
	edits := slices.Clone(unordered)
	for _, m := range mutations {
		edits = append(edits, m.edit)
	}
	for _, e := range edits {
		if n := strings.Count(texts[e.file], e.old); n != 1 {
			t.Fatalf("%s has %q %d times: want it once; bring collective_test.go up to date", e.file, e.old, n)
		}
		texts[e.file] = strings.Replace(texts[e.file], e.old, e.new, 1)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "collective"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(root, "collective", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestCollectives runs the collective kernels on ranks that drift apart, and then each of their protocols broken.
func TestCollectives(t *testing.T) {
	t.Parallel()
	program := build(t, "collective", "-I"+collectiveHeaders(t), "-O1", "-g", "-fsanitize=thread", "-pthread")
	for _, name := range []string{"reduce", "move", "messages", "no-counts", "device-counts", "wrong-counts", "outside-counts", "streams", "ring", "ring-aborted", "fold", "fold-aborted", "tickets"} {
		t.Run(name, func(t *testing.T) {
			if out, ok := run(t, program, name); !ok {
				t.Fatalf("as it is:\n%s", out)
			}
			for _, m := range mutations {
				if m.program == name && !caught(t, program, name, m.name) {
					t.Errorf("broken (%s), it passes", m.name)
				}
			}
			for _, order := range []string{"acquire", "release"} {
				if slices.Contains([]string{"streams", "ring", "fold", "tickets"}, name) && !caught(t, program, name, order) {
					t.Errorf("with relaxed %s it passes", order)
				}
			}
		})
	}
}

// caught says whether a broken program fails. That is a matter of timing: some tries may be lucky, of some mutations half.
func caught(t *testing.T, program string, args ...string) bool {
	t.Helper()
	for range 24 {
		if out, ok := run(t, program, args...); !ok {
			if testing.Verbose() {
				fmt.Printf("%v: %.300s\n", args[1:], strings.ReplaceAll(out, "\n", "\n\t"))
			}
			return true
		}
	}
	return false
}
