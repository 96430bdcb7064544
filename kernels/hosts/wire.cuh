// Messages between GPUs of different hosts. A kernel and the network meet in rings of slots that both can access: the
// kernel copies a chunk into a slot of its ring, a proxy on the host puts it into the same slot of the peer's ring, and
// the peer's kernel takes it from there.
//
// ring.cuh defines the rings. A message is cut into chunks; chunk i travels in lane i mod lanes, and in a lane chunk
// after chunk. Block b of a task serves the lanes b, b + width, … of its messages, so every ring has one producer and
// one consumer.
//
// Launches of one communicator run one after the other, in the same order on both sides of a pair. In a launch all
// blocks are resident, and those that send wait only for credits, which depend on no block of this launch. So messages
// of one launch do not wait for each other. A launch behind one that has failed sends nothing: the peer would take it
// for what the failed one owes, and name a mismatch.
#pragma once

#include <collective/reducer.cuh>
#include <collective/ticket.cuh>
#include <goccl/copy.cuh>
#include <goccl/word.cuh>
#include <hosts/ring.cuh>

namespace goccl {
namespace hosts {

// Of a counted message, the size and the displacement are in device memory when the kernel runs: Head::counts.
enum Kind : uint16_t { sends = 0, receives = 1, reduces = 2, counted = 3, sendsCounted = 3, receivesCounted = 4 };

// Item is a message, or a reduction of messages.
struct Item {
  uint8_t* at;     // where the message is or goes to; counted: the buffer of all messages
  uint64_t bytes;  // counted: of an element
  uint32_t peer;   // of a reduction: its index in Args::reduction
  uint16_t kind;
  uint16_t leads;  // a reduction of this launch follows in the same memory
};

// Own says whether a reduction's own data is also what its peers get, so that the result may only be stored after that.
enum Own : uint16_t {
  stays = 0,
  sent = 1,   // the reduction sends it, chunk by chunk
  leads = 2,  // items of other tasks send it: the reduction follows them chunk by chunk
};

// Reduction is x0 op x1 op …, in the order of its peers. The x in this rank's memory, its own and perhaps others of its
// host, are at own, one after the other at multiples of 16 bytes: their entries of Args::peers are local, with their
// numbers.
constexpr uint16_t local = 1u << 15;
struct Reduction {
  const uint8_t* own;
  uint32_t op, ranks;     // Operator; the number that an average is divided by, with scaledTerms
  uint16_t first, count;  // its peers in Args::peers
  uint16_t moves, pad;    // Own
};
static_assert(sizeof(Item) == 24 && sizeof(Reduction) == 24, "Items are filled by the host");

// Task is what the blocks of one grid row do, item after item.
struct Task {
  uint16_t first, count;
};

struct Head {
  uint64_t* ticket;  // first: see ticket.cuh
  AbortBlock* abort;
  Link* links;
  uint32_t rank;
  uint32_t lanes, slots, slotBytes;
  uint32_t least;   // bytes of a chunk of a small message
  uint32_t width;   // blocks of a task: block b is number b mod width of task b / width
  uint64_t tag;     // what messages carry: the same on both sides, 0 fits all

  // Counted messages: arrays by rank, of sends and of receives, in elements; and the lengths of the two buffers, 0 if
  // they are not known.
  const int64_t* counts[2];
  const int64_t* displs[2];
  uint64_t elements[2];
};

template <uint32_t Items, uint32_t Reductions, uint32_t Peers>
struct ArgsOf : Head {
  Task task[Items];
  Item item[Items];
  Reduction reduction[Reductions];
  uint16_t peers[Peers];
};
using Args = ArgsOf<96, 8, 160>;
using FewArgs = ArgsOf<8, 2, 16>;
static_assert(sizeof(Head) == 104 && sizeof(Args) == 3304 && sizeof(FewArgs) == 408, "Args are filled by the host");

// chunkBytes is the size of a message's chunks. If a lane carries more than one chunk of a message, every lane carries
// the same number.
GOCCL_COLD uint32_t chunkBytes(const Head& a, uint64_t bytes) {
  const uint64_t round = static_cast<uint64_t>(a.lanes) * (a.slotBytes - header);
  const uint64_t parts = bytes > round ? (bytes + round - 1) / round * a.lanes : a.lanes;
  const uint32_t size = static_cast<uint32_t>((bytes + parts - 1) / parts + 15) & ~15u;
  return size < a.least ? a.least : size;
}

// Chunks is how a message is cut: the same on both sides, which know the same number of bytes. A message of 0 bytes has
// one chunk, too.
struct Chunks {
  uint64_t bytes, size, count;
  GOCCL_DEVICE Chunks(const Head& a, uint64_t bytes) : bytes(bytes) {
    size = chunkBytes(a, bytes);
    count = bytes == 0 ? 1 : (bytes + size - 1) / size;
  }
  GOCCL_DEVICE uint64_t length(uint64_t i) const { return bytes - i * size < size ? bytes - i * size : size; }
};

using Ring = RingOf<Head>;

// copyChunk copies a chunk by all threads of the block. It is out of line: each kernel copies in three places.
GOCCL_COLD void copyChunk(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  copyBytes<4>(dst, src, bytes, threadIdx.x, blockDim.x);
}

// ended says to the first thread of a block whether a launch has failed. The answer comes over PCIe, so a message asks
// for its first chunk only: a failure of this launch ends the block by itself.
GOCCL_DEVICE bool ended(const Head& a) {
  if (threadIdx.x != 0) return false;
  return (loadRelaxed<Scope::sys>(&a.abort->abort) | loadRelaxed<Scope::sys>(&a.abort->reported)) != statusOk;
}

// sendAll sends a message's chunks of this lane.
GOCCL_DEVICE Status sendAll(const Head& a, const Item& item, uint32_t lane) {
  const Ring ring{a, a.links[item.peer], lane};
  const Chunks chunks(a, item.bytes);
  uint64_t k = ring.counters().sent;
  for (uint64_t i = lane; i < chunks.count; i += a.lanes, ++k) {
    if (__syncthreads_or(threadIdx.x == 0 && ring.awaitCredit(k) != statusOk)) return statusAborted;
    const bool failed = i == lane && ended(a);
    const uint64_t n = chunks.length(i);
    copyChunk(ring.sendSlot(k) + header, item.at + i * chunks.size, n);
    if (threadIdx.x == 0) ring.label(k, n);
    if (__syncthreads_or(failed)) return statusAborted;
    if (threadIdx.x == 0) {
      ring.post(k, n);
      if (item.leads) storeRelease<Scope::gpu>(&ring.counters().passed, i / a.lanes + 1);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) ring.counters().sent = k;
  __syncthreads();
  return statusOk;
}

// receiveAll receives a message's chunks of this lane.
GOCCL_DEVICE Status receiveAll(const Head& a, const Item& item, uint32_t lane) {
  const Ring ring{a, a.links[item.peer], lane};
  const Chunks chunks(a, item.bytes);
  uint64_t k = ring.counters().received;
  for (uint64_t i = lane; i < chunks.count; i += a.lanes, ++k) {
    const uint64_t n = chunks.length(i);
    if (__syncthreads_or(threadIdx.x == 0 && ring.awaitArrival(k, n) != statusOk)) return statusAborted;
    copyChunk(item.at + i * chunks.size, ring.recvSlot(k) + header, n);
    if (!ring.returns(k)) continue;
    __syncthreads();
    if (threadIdx.x == 0) ring.free(k);
  }
  __syncthreads();
  if (threadIdx.x == 0) ring.counters().received = k;
  __syncthreads();
  return statusOk;
}

// Source reads the vectors of one operand of a reduction, of which n bytes exist. What lies past the end is undefined.
struct Source {
  const uint8_t* at;
  bool whole;  // any vector may be read as one
  GOCCL_DEVICE uint4 load(uint64_t i, uint64_t n) const {
    return whole ? loadVec(at + i * 16) : gatherVector(at + i * 16, n - i * 16);
  }
};

// fold reduces n bytes of the data at own and of the peers' chunks, and stores the result at dst. chunk(p) is the chunk
// of peer p.
template <Type T, class Chunk>
GOCCL_DEVICE void fold(const collective::AnyReducer<T>& reducer, const uint16_t* peers, uint32_t count,
                       const uint8_t* own, uint64_t stride, uint8_t* dst, uint64_t n, Chunk chunk) {
  using Sum = typename collective::AnyReducer<T>::Sum;
  // Vectors in flight per thread: registers bound the number.
  constexpr uint32_t inFlight = Sum::count == 16 ? 1 : Sum::count == 4 && isFloat<typename Sum::A>() ? 4 : 2;
  const uint64_t vectors = (n + 15) / 16;
  const bool whole = ((reinterpret_cast<uintptr_t>(own) | reinterpret_cast<uintptr_t>(dst) | n) & 15) == 0;
#pragma unroll 1
  for (uint64_t base = threadIdx.x; base < vectors; base += uint64_t{blockDim.x} * inFlight) {
    Sum sum[inFlight];
#pragma unroll 1
    for (uint32_t p = 0; p < count; ++p) {
      const uint32_t q = peers[p];
      const Source source = (q & local) != 0 ? Source{own + (q ^ local) * stride, whole} : Source{chunk(q), true};
      uint4 x[inFlight];
#pragma unroll
      for (uint32_t u = 0; u < inFlight; ++u) {
        const uint64_t i = base + u * blockDim.x;
        if (i < vectors) x[u] = reducer.scaled(source.load(i, n));
      }
#pragma unroll
      for (uint32_t u = 0; u < inFlight; ++u) {
        if (p == 0)
          reducer.begin(sum[u], x[u]);
        else
          reducer.add(sum[u], x[u]);
      }
    }
#pragma unroll
    for (uint32_t u = 0; u < inFlight; ++u) {
      const uint64_t i = base + u * blockDim.x;
      if (i >= vectors) continue;
      const uint4 v = reducer.end(sum[u]);
      if (whole)
        storeVec(dst + i * 16, v);
      else
        scatterVector(dst + i * 16, n - i * 16, v);
    }
  }
}

// reduceAll receives the chunks of this lane from all peers of a reduction, and reduces them. Where this rank also
// sends its own data, a chunk is copied to its slots before the result is stored, so dst may be own there, too.
template <Type T>
GOCCL_DEVICE Status reduceAll(const Head& a, const Item& item, const Reduction& r, const uint16_t* peers,
                              uint32_t lane) {
  collective::Args operands{};
  operands.op = r.op;
  operands.nranks = r.ranks;
  const collective::AnyReducer<T> reducer(operands);
  const Chunks chunks(a, item.bytes);
  const uint32_t me = threadIdx.x < r.count && (peers[threadIdx.x] & local) == 0 ? peers[threadIdx.x] : a.rank;
  const uint64_t stride = (item.bytes + 15) & ~uint64_t{15};
  auto ring = [&](uint32_t p) { return Ring{a, a.links[p], lane}; };
  uint64_t done = 0;
  for (uint64_t i = lane; i < chunks.count; i += a.lanes, ++done) {
    const uint64_t n = chunks.length(i);
    const uint8_t* own = r.own + i * chunks.size;
    if (r.moves == sent) {
      Status s = statusOk;
      if (me != a.rank) s = ring(me).awaitCredit(ring(me).counters().sent + done);
      if (__syncthreads_or(s != statusOk)) return statusAborted;
#pragma unroll 1
      for (uint32_t p = 0; p < r.count; ++p) {
        if ((peers[p] & local) != 0) continue;
        const Ring to = ring(peers[p]);
        copyChunk(to.sendSlot(to.counters().sent + done) + header, own, n);
      }
      if (me != a.rank) ring(me).label(ring(me).counters().sent + done, n);
      if (__syncthreads_or(done == 0 && ended(a))) return statusAborted;
      if (me != a.rank) ring(me).post(ring(me).counters().sent + done, n);
    }
    Status s = statusOk;
    if (me != a.rank) s = ring(me).awaitArrival(ring(me).counters().received + done, n);
    if (me != a.rank && s == statusOk && r.moves == leads) {
      const uint64_t* passed = &ring(me).counters().passed;
      s = await([&] { return loadAcquire<Scope::gpu>(passed) > done; }, a.abort, passed, waitSyncer, me);
    }
    if (__syncthreads_or(s != statusOk)) return statusAborted;
    fold<T>(reducer, peers, r.count, own, stride, item.at + i * chunks.size, n, [&](uint32_t p) {
      const Ring from = ring(p);
      return from.recvSlot(from.counters().received + done) + header;
    });
    __syncthreads();
    if (me != a.rank) ring(me).free(ring(me).counters().received + done);
  }
  __syncthreads();
  if (me != a.rank) {
    ring(me).counters().received += done;
    if (r.moves == sent) ring(me).counters().sent += done;
    if (r.moves == leads) storeRelaxed<Scope::gpu>(&ring(me).counters().passed, uint64_t{0});
  }
  __syncthreads();
  return statusOk;
}

// resolve reads the size and the place of a counted message. A message outside of its buffer is not touched: every
// block that serves it ends.
GOCCL_DEVICE Status resolve(const Head& a, Item& item) {
  if (item.kind < counted) return statusOk;
  const uint32_t side = item.kind - counted;
  const int64_t count = a.counts[side][item.peer], displ = a.displs[side][item.peer];
  const uint64_t length = a.elements[side] == 0 ? ~0ull >> 1 : a.elements[side];
  if (count < 0 || displ < 0 || static_cast<uint64_t>(count) > length ||
      (count > 0 && static_cast<uint64_t>(displ) > length - count)) {
    if (threadIdx.x == 0)
      report(a.abort, statusInvalid, reinterpret_cast<const void*>(length), side == 0, item.peer);
    return statusInvalid;
  }
  item.at += static_cast<uint64_t>(displ) * item.bytes;
  item.bytes *= static_cast<uint64_t>(count);
  item.kind = side == 0 ? sends : receives;
  return statusOk;
}

// run does the items of this block's task. T is the type of its reductions, if it has any.
template <Type T, bool Reduces, class A>
GOCCL_DEVICE void run(const A& a) {
  const Task task = a.task[blockIdx.x / a.width];
#pragma unroll 1
  for (uint32_t i = task.first; i < uint32_t{task.first} + task.count; ++i) {
    Item item = a.item[i];
    if (resolve(a, item) != statusOk) return;
    const uint64_t chunks = Chunks(a, item.bytes).count;
#pragma unroll 1
    for (uint32_t lane = blockIdx.x % a.width; lane < a.lanes && lane < chunks; lane += a.width) {
      Status s = statusInvalid;
      if (item.kind == sends) {
        s = sendAll(a, item, lane);
      } else if (item.kind == receives) {
        s = receiveAll(a, item, lane);
      } else if constexpr (Reduces) {
        const Reduction& r = a.reduction[item.peer];
        s = reduceAll<T>(a, item, r, a.peers + r.first, lane);
      }
      if (s != statusOk) return;
    }
  }
}

}  // namespace hosts
}  // namespace goccl
