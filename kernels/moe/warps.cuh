// Warps: dispatch and combine give their work to warps, none of which waits for another warp. So a block has a row in
// flight for each of its warps.
#pragma once

#include <moe/memory.cuh>

namespace goccl {
namespace moe {

constexpr uint32_t allLanes = 0xffffffffu;

GOCCL_DEVICE uint32_t laneOf() { return threadIdx.x % 32; }

// shared is the pointer of a lane, for all lanes of the warp.
GOCCL_DEVICE uint8_t* shared(const uint8_t* mine, uint32_t lane) {
  const uint64_t v = reinterpret_cast<uintptr_t>(mine);
  const uint64_t low = __shfl_sync(allLanes, static_cast<uint32_t>(v), static_cast<int>(lane));
  const uint64_t high = __shfl_sync(allLanes, static_cast<uint32_t>(v >> 32), static_cast<int>(lane));
  return reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(high << 32 | low));
}

// Part is a warp's part of items that are counted from 0: at, at + of, at + 2·of and so on.
struct Part {
  uint32_t at, of;
};

// partOf returns the part of this warp, if `warps` warps of each of `blocks` blocks share the items. Blocks come before
// warps, so that few items go to many SMs.
GOCCL_DEVICE Part partOf(uint32_t warps, uint32_t block, uint32_t blocks) {
  return Part{threadIdx.x / 32 * blocks + block, warps * blocks};
}

// Item is a row that a warp moves, or a part of one. The object that it comes from says what the words are.
struct Item {
  uint32_t token, where, what;

  // of is the item that a lane keeps.
  GOCCL_DEVICE Item of(uint32_t lane) const {
    const int from = static_cast<int>(lane);
    return {__shfl_sync(allLanes, token, from), __shfl_sync(allLanes, where, from), __shfl_sync(allLanes, what, from)};
  }
};
enum class Next : uint32_t { row, later, end, failed };

// Turns are a warp's pieces of plain rows, of `each` tokens here. The order is piece after piece, and of each the
// sources in turn. Warps take them one by one, so the pieces that come last go to different warps.
struct Turns {
  const Head& a;
  const Part part;
  const uint32_t each;
  uint32_t tokens = 0;  // lane s: of source s; 0 if it sends packets
  uint32_t base = 0;    // lane s: the rows of the sources before s
  uint32_t most, item, piece = 0, source = 0;

  GOCCL_DEVICE Turns(const Head& head, Part mine, uint32_t packets, uint32_t tokensOfPiece = pieceTokens)
      : a(head), part(mine), each(tokensOfPiece), item(mine.at) {
    const uint32_t rows = laneOf() < a.nranks ? static_cast<uint32_t>(a.counts[laneOf()]) : 0;
    if (laneOf() < a.nranks) tokens = static_cast<uint32_t>(a.sourceTokens[laneOf()]);
    if (tokens <= packets) tokens = 0;
    for (uint32_t s = 0; s + 1 < a.nranks; ++s) {
      const uint32_t before = __shfl_sync(allLanes, rows, static_cast<int>(s));
      if (laneOf() > s) base += before;
    }
    most = (__reduce_max_sync(allLanes, tokens) + each - 1) / each;
  }

  // next goes to the warp's next piece. The sources of a piece are at(1) to at(turns).
  template <class At>
  GOCCL_DEVICE bool next(uint32_t turns, At at) {
    for (; item < most * turns; item += part.of) {
      piece = item / turns, source = at(item % turns + 1);
      if (first() >= tokensOf()) continue;
      item += part.of;
      return true;
    }
    return false;
  }
  GOCCL_DEVICE void again() { item = part.at; }

  GOCCL_DEVICE uint32_t tokensOf() const { return __shfl_sync(allLanes, tokens, static_cast<int>(source)); }
  GOCCL_DEVICE uint32_t baseOf() const { return __shfl_sync(allLanes, base, static_cast<int>(source)); }
  GOCCL_DEVICE uint32_t first() const { return piece * each; }
  // count is the number of tokens of the piece.
  GOCCL_DEVICE uint32_t count() const { return minOf(tokensOf() - first(), each); }
  // tokensHere is the set of the piece's tokens that have places on this rank. place becomes the first place of the
  // token of each lane.
  GOCCL_DEVICE uint32_t tokensHere(int32_t& place) const {
    bool is = false;
    if (laneOf() < count()) {
      const int32_t* places = placesOf(a, source, first() + laneOf());
      place = places[0];
      is = present(a, places);
    }
    return __ballot_sync(allLanes, is);
  }
};

// Entries are the entries of a piece's lists, `each` of a token, in the lanes' registers.
struct Entries {
  static_assert(pieceTokens * maxTopK <= 64, "a lane keeps two entries");
  uint32_t each, kept[2] = {0, 0};

  // load keeps what entry(token of the piece, k) returns.
  template <class Entry>
  GOCCL_DEVICE void load(uint32_t tokens, Entry entry) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i)
      if (const uint32_t e = i * 32 + laneOf(); e < tokens * each) kept[i] = entry(e / each, e % each);
  }
  // of returns an entry; all lanes ask, each for its own.
  GOCCL_DEVICE uint32_t of(uint32_t token, uint32_t k) const {
    const uint32_t e = token * each + k;
    const uint32_t low = __shfl_sync(allLanes, kept[0], static_cast<int>(e % 32));
    if (each * pieceTokens <= 32) return low;
    const uint32_t high = __shfl_sync(allLanes, kept[1], static_cast<int>(e % 32));
    return e < 32 ? low : high;
  }
};

// Spans are parts of tokens' lines, in whole groups of 32 units, one of each lane. If there are fewer tokens than
// warps, several warps share a token.
struct Spans {
  Part part;
  uint32_t groups, split;

  // tokens is the total of all calls of each.
  GOCCL_DEVICE Spans(Part p, const Row& r, uint32_t tokens) : part(p), groups(lineUnits(r) / 32), split(1) {
    if (tokens != 0 && part.of / tokens > 1) split = part.of / tokens < groups ? part.of / tokens : groups;
  }

  // each calls take(token, first unit, end) with this warp's spans of some tokens, until one fails. The spans of the
  // next call go on where these end.
  template <class Take>
  GOCCL_DEVICE bool each(uint32_t tokens, Take take) {
    const uint32_t items = tokens * split;
    for (uint32_t i = part.at; i < items; i += part.of) {
      const uint32_t j = i % split;
      if (!take(i / split, j * groups / split * 32, (j + 1) * groups / split * 32)) return false;
    }
    part.at = (part.at + part.of - items % part.of) % part.of;
    return true;
  }
};

// plainUnits is the number of leading units of a row's lines, in whole groups, that carry elements only.
GOCCL_DEVICE uint32_t plainUnits(const Row& r) { return r.data / (4 * ll128Payload) * 32; }

// plainUnit is what a unit of them carries, of a row's elements.
GOCCL_DEVICE uint4 plainUnit(const uint8_t* row, uint32_t unit) {
  const uint8_t* at = row + lineOffset(unit);
  const uint2 low = loadVec2(at), high = ll128HasFlag(unit) ? make_uint2(0, 0) : loadVec2(at + 8);
  return make_uint4(low.x, low.y, high.x, high.y);
}

// storeUnit stores the payload of a unit.
GOCCL_DEVICE void storeUnit(uint8_t* row, uint32_t unit, uint4 v) {
  uint8_t* at = row + lineOffset(unit);
  storeVec2(at, make_uint2(v.x, v.y));
  if (!ll128HasFlag(unit)) storeVec2(at + 8, make_uint2(v.z, v.w));
}

// awaitUnits waits for Count groups of a source's lines from unit `first` on, as far as they are below end. While
// they are not there it polls the last of them alone, which is sent last: polls take bandwidth from the data to come.
template <uint32_t Count>
GOCCL_DEVICE Status awaitUnits(const Head& a, const void* lines, uint32_t first, uint32_t end, uint32_t n,
                               uint32_t peer, uint4 (&v)[Count]) {
  uint64_t start = 0;
  const uint32_t last = (end - first < Count * 32 ? end - first : Count * 32) - 32;
  bool polls = false;
  return spin(
      [&] {
        bool fresh = true;
        if (polls) {
          ll128Get(lines, first + last + laneOf(), lineFlag(n), fresh);
          if (!__all_sync(allLanes, fresh)) return false;
        }
        polls = Count > 1;
#pragma unroll
        for (uint32_t u = 0; u < Count; ++u)
          if (first + u * 32 < end) v[u] = ll128Get(lines, first + u * 32 + laneOf(), lineFlag(n), fresh);
        return __all_sync(allLanes, fresh) != 0;
      },
      [&] { return __reduce_max_sync(allLanes, checkAbort(a.abort, start, lines, waitPacket, peer)); });
}

// awaitPiece waits, with all lanes, until a piece of plain rows is there, of the ranks of a set. Without wait it looks
// once, and says later.
GOCCL_DEVICE Next awaitPiece(const Head& a, const Row& r, uint32_t sources, uint32_t piece, uint32_t n, bool wait) {
  bool there = true, failed = false;
  if ((sources >> laneOf() & 1) != 0) {
    const uint32_t* word = flagAt(a, r, a.rank, laneOf(), piece);
    auto arrived = [&] { return loadAcquire<Scope::sys>(word) == n; };
    if (wait)
      failed = waitUntil(arrived, a.abort, word, waitPacket, -1, laneOf()) != statusOk;
    else
      there = arrived();
  }
  if (__any_sync(allLanes, failed)) return Next::failed;
  return __all_sync(allLanes, there) ? Next::row : Next::later;
}

}  // namespace moe
}  // namespace goccl
