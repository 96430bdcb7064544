package hosttest

// edit replaces a text of a header, which must occur once in it.
type edit struct {
	file, old, new string
}

// size sets a constant.
type size struct {
	file, name, value string
}

// sizes are small here: rings wrap sooner, and the emulation has a system thread for every thread of a block.
var sizes = []size{
	{"collective/p2p.cuh", "p2pChannels", "2"},
	{"collective/p2p.cuh", "p2pUnits", "64"},
	{"collective/stream.cuh", "streamChannels", "2"},
	{"collective/stream.cuh", "streamRingBytes", "384"},
	{"collective/stream.cuh", "streamPieceBytes", "64"},
	{"collective/stream.cuh", "streamLarge", "3000"},
	{"collective/slices.cuh", "sliceChannels", "4"},
	{"goccl/pipe.cuh", "pipeSignalers", "1"},
}

// unordered are places that rely on what the GPU does and the memory model does not say.
var unordered = []edit{
	// A block without units stores the epoch that it has loaded, with no barrier in between: the same value.
	{"collective/kernels.cuh", "if (threadIdx.x == 0) a.epochs[",
		"if (threadIdx.x == 0 && a.epochs[blockIdx.x * epochStride] != epoch) a.epochs["},
	// A limit is relaxed: the loads of the slot have returned their values, and what has been read may be overwritten.
	{"collective/stream.cuh", "storeRelaxed<Scope::sys>(limit,", "storeRelease<Scope::sys>(limit,"},
	{"collective/slices.cuh", "storeRelaxed<Scope::sys>(limit(", "storeRelease<Scope::sys>(limit("},
	// A poll that fails lets other threads run.
	{"goccl/pipe.cuh", "return passed(seen = loadRelaxed<Scope::sys>(word), number);",
		"return polled(passed(seen = loadAcquire<Scope::sys>(word), number));"},
	{"goccl/pipe.cuh", "return passed(seen = loadAcquire<Scope::sys>(word), number);",
		"return polled(passed(seen = loadAcquire<Scope::sys>(word), number));"},
	// Ranks that compare counts late find them all the same.
	{"collective/all_to_all_v.cuh", "const LL16Packet* in = countPackets(",
		"if (p != a.rank && (p + epoch) % 3 == 0) sleepNs(20000000);\n    const LL16Packet* in = countPackets("},
}

// mutation is a line that can be broken when the program starts. Each of its programs, a list of names, must notice.
type mutation struct {
	name, programs string
	edit
}

var mutations = []mutation{
	// Packets.
	{"one parity", "reduce", edit{"collective/args.cuh", "(epoch & 1)",
		`(epoch & (mutated("one parity") ? 0u : 1u))`}},
	{"same epoch", "reduce", edit{"collective/kernels.cuh", "epoch = nextEpoch(epoch);",
		`if (!mutated("same epoch")) epoch = nextEpoch(epoch);`}},
	{"epoch not kept", "move", edit{"collective/kernels.cuh", "epochStride] = epoch;",
		`epochStride] = epoch - (mutated("epoch not kept") ? 1 : 0);`}},
	{"epoch zero", "reduce", edit{"goccl/packet.cuh", "return e == 0xffffffffu ?",
		`return e == 0xffffffffu && !mutated("epoch zero") ?`}},
	{"no token", "move", edit{"collective/rooted.cuh", "if (!token) return statusOk;",
		`if (!token || mutated("no token")) return statusOk;`}},

	// Messages between pairs.
	{"no credit", "messages", edit{"collective/p2p.cuh", "static_cast<int32_t>(k - taken) <",
		`mutated("no credit") || static_cast<int32_t>(k - taken) <`}},
	{"credit before the barrier", "messages", edit{"collective/p2p.cuh",
		"if (__syncthreads_or(s != statusOk)) return statusAborted;",
		`if (mutated("credit before the barrier") ? s != statusOk : __syncthreads_or(s != statusOk)) return statusAborted;`}},
	{"credit for a piece that is not taken", "messages", edit{"collective/p2p.cuh", "(credit, k);",
		`(credit, k + mutated("credit for a piece that is not taken"));`}},
	{"more channels than blocks", "messages", edit{"collective/p2p.cuh", "return parts < a.width ?",
		`return parts < a.width || mutated("more channels than blocks") ?`}},
	{"no copy", "messages", edit{"collective/p2p.cuh", "lane.count; i += 2) {",
		`lane.count - (mutated("no copy") ? 2u : 0u); i += 2) {`}},
	{"another size of pieces", "messages", edit{"collective/p2p.cuh", "slots) + least - 1)",
		`slots) + least - 1 - 480 * (mutated("another size of pieces") && a.rank == 0))`}},

	// Counts on the device.
	{"one parity of counts", "no-counts", edit{"collective/all_to_all_v.cuh", "(epoch & 1)",
		`(mutated("one parity of counts") ? 0u : epoch & 1)`}},
	{"epoch of counts not kept", "device-counts", edit{"collective/all_to_all_v.cuh", "*counter = epoch;",
		`*counter = epoch - mutated("epoch of counts not kept");`}},
	{"one channel of two", "device-counts", edit{"collective/all_to_all_v.cuh", "channel += a.channels)",
		`channel += a.channels + mutated("one channel of two"))`}},
	{"counts not compared", "wrong-counts", edit{"collective/all_to_all_v.cuh", "if (sends != myReceives)",
		`if (sends != myReceives && !mutated("counts not compared"))`}},
	{"counts not within", "outside-counts", edit{"collective/all_to_all_v.cuh", "a.elements[send] - count;",
		`a.elements[send] - count + (mutated("counts not within") ? 1u << 30 : 0);`}},

	// The pipe of slices and streams.
	{"workers do not wait", "streams slices", edit{"goccl/pipe.cuh", "barrierOf(1, workers());",
		`if (!mutated("workers do not wait")) barrierOf(1, workers());`}},
	{"signal before the barrier", "streams", edit{"goccl/pipe.cuh", "barrierOf(2, blockDim.x);",
		`if (mutated("signal before the barrier") && signaler()) signal();
    barrierOf(2, blockDim.x);`}},
	{"moves all the same", "slices-aborted", edit{"goccl/pipe.cuh", "if (*stop == 0) move();",
		`if (*stop == 0 || mutated("moves all the same")) move();`}},
	{"goes on", "slices-aborted", edit{"goccl/pipe.cuh", "if (*stop != 0) return false;",
		`if (*stop != 0 && !mutated("goes on")) return false;`}},

	// Streams.
	{"flag before the data", "streams", edit{"collective/stream.cuh", "copyBytes<4>(f.slot(j), f.at(j),",
		`if (mutated("flag before the data") && threadIdx.x == 0) storeRelease<Scope::sys>(f.flag, f.number(j + 1));
        copyBytes<4>(f.slot(j), f.at(j),`}},
	{"beyond the message", "streams", edit{"collective/stream.cuh", "j + depth < mine ?",
		`j + depth < mine || mutated("beyond the message") ?`}},
	{"more than the ring holds", "streams", edit{"collective/stream.cuh", "? j + depth : mine",
		`? j + depth + mutated("more than the ring holds") : mine`}},

	// Slices.
	{"no room", "slices", edit{"collective/slices.cuh", "sends && s.sendsTo(p) ? s.awaitAllowed",
		`sends && !mutated("no room") && s.sendsTo(p) ? s.awaitAllowed`}},
	{"no room for results", "slices", edit{"collective/slices.cuh", "if (status == statusOk && adds && s.passesTo(p))",
		`if (status == statusOk && adds && !mutated("no room for results") && s.passesTo(p))`}},
	{"early flag", "slices", edit{"collective/slices.cuh", "adds && s.addsOf(p) ? s.awaitArrival",
		`adds && !mutated("early flag") && s.addsOf(p) ? s.awaitArrival`}},
	{"early result", "slices", edit{"collective/slices.cuh", "if (status == statusOk && takes && s.takesFrom(p))",
		`if (status == statusOk && takes && !mutated("early result") && s.takesFrom(p))`}},
	{"signals before the barrier", "slices", edit{"collective/slices.cuh", "if (!pipe.step(",
		`if (mutated("signals before the barrier") && pipe.signaler()) signal();
      if (!pipe.step(`}},
	{"beyond the end", "slices", edit{"collective/slices.cuh", "turn + depth < turns ?",
		`turn + depth < turns || mutated("beyond the end") ?`}},
	{"FIFOs overlap", "slices", edit{"collective/slices.cuh", "* depth + turn % depth)",
		`* (depth - mutated("FIFOs overlap")) + turn % depth)`}},
	{"turn lost", "slices", edit{"collective/slices.cuh", "now < s.turns + 2 * sliceLag;",
		`now < s.turns + 2 * sliceLag - mutated("turn lost");`}},
	{"parts are not counted", "slices", edit{"collective/slices.cuh", "counters()[parts] = before[parts] + turns;",
		`counters()[parts] = before[parts] + turns - mutated("parts are not counted");`}},
	{"results are not counted", "slices", edit{"collective/slices.cuh",
		"counters()[results] = before[results] + turns;",
		`counters()[results] = before[results] + turns - mutated("results are not counted");`}},
	{"one part lost", "slices", edit{"collective/slices.cuh", "      if (!s.adds(r)) continue;",
		`      if (!s.adds(r) || (mutated("one part lost") && r + 1 == a.nranks && a.sources != 0)) continue;`}},
	{"what is sent is not scaled", "slices", edit{"collective/slices.cuh", "storeVec(to + i, reducer.sent(v));",
		`storeVec(to + i, mutated("what is sent is not scaled") ? v : reducer.sent(v));`}},
	{"the own is not scaled", "slices", edit{"collective/slices.cuh",
		"r == a.rank ? reducer.sent(load(",
		`r == a.rank && mutated("the own is not scaled") ? load(own + i, bytes - i, false)
                      : r == a.rank ? reducer.sent(load(`}},
	{"bytes around are not there", "slices", edit{"collective/slices.cuh", "i >= 16 && i + 32 <= bytes;",
		`(i >= 16 && i + 32 <= bytes) || mutated("bytes around are not there");`}},
	{"bytes around are written", "slices", edit{"collective/slices.cuh", "apart && inside(i, bytes)",
		`(apart || mutated("bytes around are written")) && inside(i, bytes)`}},
	{"nothing is kept", "slices", edit{"collective/slices.cuh", "if (mirror != nullptr) store(",
		`if (mirror != nullptr && !mutated("nothing is kept")) store(`}},

	{"ticket before the barrier", "tickets", edit{"collective/ticket.cuh", "__syncthreads();",
		`if (!mutated("ticket before the barrier")) __syncthreads();`}},
}
