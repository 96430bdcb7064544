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
	{"collective/ring.cuh", "ringChannels", "4"},
	{"collective/direct.cuh", "pullBytes", "256"},
	{"collective/direct.cuh", "pushChunk", "64"},
	{"goccl/pipe.cuh", "pipeSignalers", "1"},
}

// unordered are places that rely on what the GPU does and the memory model does not say.
var unordered = []edit{
	// A block without units stores the epoch that it has loaded, with no barrier in between: the same value.
	{"collective/kernels.cuh", "if (threadIdx.x == 0) a.epochs[",
		"if (threadIdx.x == 0 && a.epochs[blockIdx.x * epochStride] != epoch) a.epochs["},
	// A limit is relaxed: the loads of the slot have returned their values, so the slot may be overwritten.
	{"collective/stream.cuh", "storeRelaxed<Scope::sys>(limit,", "storeRelease<Scope::sys>(limit,"},
	{"collective/ring.cuh", "storeRelaxed<Scope::sys>(limit(", "storeRelease<Scope::sys>(limit("},
	{"collective/ring_fold.cuh", "storeRelaxed<Scope::sys>(limit(", "storeRelease<Scope::sys>(limit("},
	// A poll that fails lets other threads run.
	{"goccl/pipe.cuh", "return passed(seen = loadRelaxed<Scope::sys>(word), number);",
		"return polled(passed(seen = loadAcquire<Scope::sys>(word), number));"},
	{"goccl/pipe.cuh", "return passed(seen = loadAcquire<Scope::sys>(word), number);",
		"return polled(passed(seen = loadAcquire<Scope::sys>(word), number));"},
	{"collective/direct.cuh", "return loadAcquire<Scope::sys>(here + 2) >= number;",
		"return polled(loadAcquire<Scope::sys>(here + 2) >= number);"},
	{"collective/lamport.cuh", "      pause();\n", "      polled(false);\n"},
	// Halves of a packet arrive apart.
	{"collective/lamport.cuh", "storePacket(push.target(p) + u, own);",
		`uint2* q = reinterpret_cast<uint2*>(push.target(p) + u);
      storePacket(q, make_uint2(own.x, own.y));
      polled(own.y % 8 != 1);
      storePacket(q + 1, make_uint2(own.z, own.w));`},
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
	{"ranks left out", "many", edit{"collective/protocol.cuh", "first += batchOf<N>) {",
		`first += batchOf<N> << mutated("ranks left out")) {`}},
	{"no token", "move", edit{"collective/rooted.cuh", "if (!token) return statusOk;",
		`if (!token || mutated("no token")) return statusOk;`}},

	// Lamport packets.
	{"one set", "lamport", edit{"collective/lamport.cuh", "(keepBelow(before) & 1)",
		`(keepBelow(before) & (mutated("one set") ? 0u : 1u))`}},
	{"not zeroed", "lamport", edit{"collective/lamport.cuh", "if (from >> r & 1) storePacket(",
		`if ((from >> r & 1) && !mutated("not zeroed")) storePacket(`}},
	{"own copy only", "lamport", edit{"collective/lamport.cuh", "b < launchCopies;",
		`b < (mutated("own copy only") ? gridDim.x : launchCopies);`}},
	{"launch not counted", "lamport", edit{"collective/lamport.cuh", "= before + 1;",
		`= before + 1 - mutated("launch not counted");`}},
	{"ones not replaced", "lamport", edit{"collective/lamport.cuh", "p.z += p.z == 0;",
		`if (!mutated("ones not replaced")) p.z += p.z == 0;`}},
	{"half a packet", "lamport", edit{"collective/lamport.cuh", "return packet.x != 0 && packet.z != 0;",
		`return packet.x != 0 && (mutated("half a packet") || packet.z != 0);`}},
	{"no slice of its owner", "lamport", edit{"collective/lamport.cuh", "push.store(a.recv + a.rank * slice, u,",
		`if (!mutated("no slice of its owner")) push.store(a.recv + a.rank * slice, u,`}},

	{"four slots", "many", edit{"collective/lamport.cuh", "return (source - own - 1) & (n - 1);",
		`return (source - own - 1) & (mutated("four slots") ? 3 : n - 1);`}},

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

	// The pipe of rings, folds and streams.
	{"workers do not wait", "streams ring fold", edit{"goccl/pipe.cuh", "barrierOf(1, workers());",
		`if (!mutated("workers do not wait")) barrierOf(1, workers());`}},
	{"signal before the barrier", "streams", edit{"goccl/pipe.cuh", "barrierOf(2, blockDim.x);",
		`if (mutated("signal before the barrier") && signaler()) signal();
    barrierOf(2, blockDim.x);`}},
	{"moves all the same", "ring-aborted fold-aborted", edit{"goccl/pipe.cuh", "if (*stop == 0) move();",
		`if (*stop == 0 || mutated("moves all the same")) move();`}},
	{"goes on", "ring-aborted fold-aborted", edit{"goccl/pipe.cuh", "if (*stop != 0) return false;",
		`if (*stop != 0 && !mutated("goes on")) return false;`}},

	// Streams.
	{"flag before the data", "streams", edit{"collective/stream.cuh", "copyBytes<4>(f.slot(j), f.at(j),",
		`if (mutated("flag before the data") && threadIdx.x == 0) storeRelease<Scope::sys>(f.flag, f.number(j + 1));
        copyBytes<4>(f.slot(j), f.at(j),`}},
	{"beyond the message", "streams", edit{"collective/stream.cuh", "j + depth < mine ?",
		`j + depth < mine || mutated("beyond the message") ?`}},
	{"place behind the limit", "streams", edit{"collective/stream.cuh",
		"storeRelaxed<Scope::sys>(place(), there);\n    storeRelease<Scope::sys>(limit, allowed(0));",
		`if (!mutated("place behind the limit")) storeRelaxed<Scope::sys>(place(), there);
    storeRelease<Scope::sys>(limit, allowed(0));
    if (mutated("place behind the limit")) sleepNs(3000000), storeRelaxed<Scope::sys>(place(), there);`}},
	{"parts of idle channels", "streams", edit{"collective/stream.cuh", "return pieces < channels ?",
		`return pieces < channels && !mutated("parts of idle channels") ?`}},
	{"not all pieces told", "streams", edit{"collective/stream.cuh", "f.number(f.mine));",
		`f.number(f.mine - mutated("not all pieces told")));`}},
	{"mapped message not awaited", "streams", edit{"collective/stream.cuh", "if (f.there != 0) return",
		`if (f.there != 0) return mutated("mapped message not awaited") ||`}},
	{"place of another message", "streams", edit{"collective/stream.cuh", "a.there[lane.first + i]",
		`a.there[lane.first + (mutated("place of another message") ? 0 : i)]`}},
	{"own messages forgotten", "streams", edit{"collective/stream.cuh", "if (!own()) return false;",
		`alone = alone && !mutated("own messages forgotten");
    if (!own()) return false;`}},
	{"more than the ring holds", "streams", edit{"collective/stream.cuh", "? j + depth : mine",
		`? j + depth + mutated("more than the ring holds") : mine`}},

	// Rings.
	{"no room", "ring", edit{"collective/ring.cuh", "return sends ? pipe.awaitLimit(",
		`return sends && !mutated("no room") ? pipe.awaitLimit(`}},
	{"early flag", "ring", edit{"collective/ring.cuh", "awaitFlag(flag(a.rank), received, arrived,",
		`awaitFlag(flag(a.rank), received - mutated("early flag"), arrived,`}},
	{"flag before the barrier", "ring", edit{"collective/ring.cuh", "if (!pipe.step(",
		`if (mutated("flag before the barrier") && pipe.signaler() && sends) storeRelease<Scope::sys>(flag(next), sent + 1);
      if (!pipe.step(`}},
	{"limit before the barrier", "ring", edit{"collective/ring.cuh", "if (!pipe.step(",
		`if (mutated("limit before the barrier") && pipe.signaler() && receives) allow(received + 1);
      if (!pipe.step(`}},
	{"beyond the end", "ring", edit{"collective/ring.cuh", "taken + depth < end ?",
		`taken + depth < end || mutated("beyond the end") ?`}},
	{"FIFOs overlap", "ring", edit{"collective/ring.cuh", "(channel * depth + number % depth)",
		`(channel * (depth - mutated("FIFOs overlap")) + number % depth)`}},
	{"part lost", "ring", edit{"collective/ring.cuh", "k < ringParts;", `k < ringParts - mutated("part lost");`}},
	{"sent is not kept", "ring", edit{"collective/ring.cuh", "counters()[0] = sent;",
		`counters()[0] = sent - mutated("sent is not kept");`}},
	{"received is not kept", "ring", edit{"collective/ring.cuh", "counters()[1] = received;",
		`counters()[1] = received - mutated("received is not kept");`}},
	{"not ended", "ring", edit{"collective/ring.cuh", "(What & ringLast) != 0 ?",
		`(What & ringLast) != 0 && !mutated("not ended") ?`}},
	{"ended by everyone", "ring", edit{"collective/ring.cuh", ": sum.result();",
		`: mutated("ended by everyone") ? reducer.end(sum) : sum.result();`}},
	{"not scaled", "ring", edit{"collective/ring.cuh", "v = reducer.scaled(v);",
		`v = mutated("not scaled") ? v : reducer.scaled(v);`}},
	{"bytes around are written", "ring", edit{"collective/ring.cuh", "in != out && i >= 16",
		`(in != out || mutated("bytes around are written")) && i >= 16`}},
	{"bytes around are not there", "ring", edit{"collective/ring.cuh", "i + 32 <= bytes)",
		`(i + 32 <= bytes || mutated("bytes around are not there")))`}},

	// Folds.
	{"no room for sums", "fold", edit{"collective/ring_fold.cuh", "return sends ? ring.pipe.awaitLimit(",
		`return sends && !mutated("no room for sums") ? ring.pipe.awaitLimit(`}},
	{"early flag of sums", "fold", edit{"collective/ring_fold.cuh", "awaitFlag(flag(a.rank, from), before + taking,",
		`awaitFlag(flag(a.rank, from), before + taking - mutated("early flag of sums"),`}},
	{"flag of sums before the barrier", "fold", edit{"collective/ring_fold.cuh", "if (!ring.pipe.step(",
		`if (mutated("flag of sums before the barrier") && ring.pipe.signaler() && sends)
        storeRelease<Scope::sys>(flag(to, a.rank), before + turn + 1);
      if (!ring.pipe.step(`}},
	{"limit of sums before the barrier", "fold", edit{"collective/ring_fold.cuh", "if (!ring.pipe.step(",
		`if (mutated("limit of sums before the barrier") && ring.pipe.signaler() && receives) allow();
      if (!ring.pipe.step(`}},
	{"sums beyond the end", "fold", edit{"collective/ring_fold.cuh", "if (allowed == total) return;",
		`if (allowed == total && !mutated("sums beyond the end")) return;`}},
	{"FIFOs of sums overlap", "fold", edit{"collective/ring_fold.cuh", "(ring.depth * ring.slotBytes)",
		`(ring.depth * ring.slotBytes - 128 * mutated("FIFOs of sums overlap"))`}},
	{"piece lost", "fold", edit{"collective/ring_fold.cuh", "if (++s.piece != pieces)",
		`if (++s.piece != pieces - mutated("piece lost"))`}},
	{"steps are not kept", "fold", edit{"collective/ring_fold.cuh", "counters()[2] = before + total;",
		`counters()[2] = before + total - mutated("steps are not kept");`}},
	{"the ring begins too early", "fold", edit{"collective/ring_fold.cuh",
		"if (!Fold<R, A>(ring).run(true, home)) return;",
		`if (mutated("the ring begins too early")) ring.open(a.nranks - 1);
  if (!Fold<R, A>(ring).run(true, home)) return;`}},
	{"sums not ended", "fold", edit{"collective/ring_fold.cuh", "v = reducer.end(sum[j]);",
		`v = mutated("sums not ended") ? sum[j].result() : reducer.end(sum[j]);`}},
	{"the own is not scaled", "fold", edit{"collective/ring_fold.cuh", "reducer.begin(sum[j], reducer.scaled(y[j]));",
		`reducer.begin(sum[j], mutated("the own is not scaled") ? y[j] : reducer.scaled(y[j]));`}},
	{"begun with the last", "fold", edit{"collective/ring_fold.cuh", "reducer.begin(sum[j], ",
		`reducer.begin(sum[j], mutated("begun with the last") ? x[j] : `}},
	{"sent data is not scaled", "fold", edit{"collective/ring_fold.cuh", "storeVec(to + i, reducer.scaled(y[j]));",
		`storeVec(to + i, mutated("sent data is not scaled") ? y[j] : reducer.scaled(y[j]));`}},
	{"bytes around the own are written", "fold", edit{"collective/ring_fold.cuh", "own != out && i >= 16",
		`(own != out || mutated("bytes around the own are written")) && i >= 16`}},
	{"bytes around the sent data are read", "fold", edit{"collective/ring_fold.cuh", "i >= 16 && i + 32 <= given)",
		`(i >= 16 && i + 32 <= given) || mutated("bytes around the sent data are read"))`}},

	{"ticket before the barrier", "tickets", edit{"collective/ticket.cuh", "__syncthreads();",
		`if (!mutated("ticket before the barrier")) __syncthreads();`}},

	// Large messages by few blocks.
	{"no last meeting", "direct", edit{"collective/direct_reduce.cuh",
		"if (!meet()) return;\n      if (all() && !inPlace",
		`if (!(mutated("no last meeting") && inPlace) && !meet()) return;
      if (all() && !inPlace`}},
	{"results before the work", "direct", edit{"collective/direct_reduce.cuh",
		"&& !meet()) return;\n      if (all() && !inPlace",
		`&& !mutated("results before the work") && !meet()) return;
      if (all() && !inPlace`}},
	{"work before the copies", "direct", edit{"collective/direct_reduce.cuh", "if (!meet()) return;\n      }\n      pull(",
		`if (!mutated("work before the copies") && !meet()) return;
      }
      pull(`}},
	{"no last meeting of a move", "direct", edit{"collective/direct_move.cuh",
		"if (!meet()) return;\n      return keep();",
		`if (!mutated("no last meeting of a move") && !meet()) return;
      return keep();`}},
	{"moved before the copies", "direct", edit{"collective/direct_move.cuh",
		"if (!meet()) return;\n      const uint64_t own",
		`if (!mutated("moved before the copies") && !meet()) return;
      const uint64_t own`}},
	{"copied before the move", "direct", edit{"collective/direct_move.cuh", "if (!meet()) return;\n    }\n    keep();",
		`if (!mutated("copied before the move") && !meet()) return;
    }
    keep();`}},
	{"to the wrong side of the root", "direct", edit{"collective/direct_move.cuh", "(a.recvStride != 0 ? to : from);",
		`((a.recvStride != 0) != mutated("to the wrong side of the root") ? to : from);`}},
	{"edges are lost", "direct", edit{"collective/direct_move.cuh", "a.bytes - bulk, thread, threads);",
		`a.bytes - bulk - mutated("edges are lost"), thread, threads);`}},
	{"the own factor for all", "direct", edit{"collective/direct_reduce.cuh", "if (!r.sum.pre) return;",
		`if (!r.sum.pre || mutated("the own factor for all")) return;`}},
	{"sums for all", "direct", edit{"collective/direct_reduce.cuh", "if (wants(a, peer(k))) storeAny(",
		`if (wants(a, peer(k)) || mutated("sums for all")) storeAny(`}},
	{"past the edge", "direct", edit{"collective/direct_reduce.cuh", "storeAny(out(peer(k)) + at, bytes, v);",
		`storeAny(out(peer(k)) + at, mutated("past the edge") ? 16 : bytes, v);`}},
	{"slots of the neighbour", "direct", edit{"collective/direct_move.cuh", "same ? 0 : static_cast<uint64_t>(a.rank)",
		`same ? 0 : static_cast<uint64_t>(mutated("slots of the neighbour") ? 0 : a.rank)`}},
	{"own word counts", "direct", edit{"collective/direct.cuh", "return !__syncthreads_or(r < a.nranks && (",
		`if (mutated("own word counts")) return a.in[0] != nullptr;
    return !__syncthreads_or(r < a.nranks && (`}},
	{"meetings are not kept", "direct", edit{"collective/direct.cuh", "*counter() = meetings;",
		`*counter() = meetings - mutated("meetings are not kept");`}},
	{"last chunk lost", "direct", edit{"collective/direct_reduce.cuh", "at < bytes; at += step)\n      for",
		`at + size * mutated("last chunk lost") < bytes; at += step)
      for`}},
	{"rank 0 twice", "direct", edit{"collective/direct_reduce.cuh", "term(reducer, q, v[q]));",
		`term(reducer, q, v[mutated("rank 0 twice") ? 0 : q]));`}},
}
