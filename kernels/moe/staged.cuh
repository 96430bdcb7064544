// Dispatch and combine by stages (stage.cuh), for plain rows. Places, flags and packets are those of dispatch.cuh and
// combine.cuh, so each rank decides by itself how it moves rows. A warp moves a piece from its first row to its flag,
// and waits for nothing that another warp of its block does.
//
//   sender     for each row of a piece: load it, put its scales and list, store it to the token's ranks
//              behind the last row: finish, then the piece's flag
//   receiver   wait for the piece's flag; for each row: load it, store its elements to the caller's rows, and the rest
//              by plain stores
//
// The rows that combine adds are not staged: the adders load them.
#pragma once

#include <moe/adder.cuh>
#include <moe/dispatch.cuh>

namespace goccl {
namespace moe {

#if GOCCL_STAGES

// sendStaged sends a piece.
GOCCL_DEVICE bool sendStaged(const DispatchArgs& a, Stage& stage, uint32_t piece, uint32_t n) {
  const uint32_t first = piece * pieceTokens;
  const uint32_t count = a.tokens - first < pieceTokens ? a.tokens - first : pieceTokens;
  for (uint32_t token = first; token < first + count; ++token) {
    if ((a.routes[token].mask & ~(1u << a.rank)) == 0) continue;
    if (!stage.load(a.x + token * a.xStride, a.row.data)) return false;
    for (uint32_t at = a.row.data + stage.lane * 8; at < a.row.bytes; at += 32 * 8) stage.put(at, wordOf(a, token, at));
    stage.seal();
    if (stage.lane != 0) continue;
    toPeers(a, token, [&](uint8_t* to) { stage.store(to, stagedBytes(a.row)); });
    stage.commit();
  }
  if (stage.lane == 0) {
    stage.finish();
    tellPiece(a, piece, n);
  }
  return true;
}

// receiveStaged copies a row.
GOCCL_DEVICE bool receiveStaged(const DispatchArgs& a, Stage& stage, const Target& to, uint32_t token) {
  const int32_t* places = placesOf(a, to.source, token);
  if (!present(a, places)) return true;
  const bool own = to.source == a.rank;
  if (!stage.load(plainRow(to, token), own ? a.row.data : stagedBytes(a.row))) return false;
  if (stage.lane == 0) {
    to.forEach(places, [&](uint64_t row) { stage.store(a.recvX + row * a.row.data, a.row.data); });
    stage.commit();
  }
  auto word = [&](uint32_t offset) { return own ? wordOf(a, token, offset) : stage.word(offset); };
  if (a.row.bytes != a.row.data || a.recvSource != nullptr)
    to.forEach(places, [&](uint64_t row) { storeRest(to, row, token, word); });
  return true;
}

// receiveStaged takes a piece.
GOCCL_DEVICE bool receiveStaged(const DispatchArgs& a, Stage& stage, const Incoming& in, uint32_t n) {
  const Target to(a, in.source, stage.lane, 32);
  Status failed = statusOk;
  if (!in.own && !in.lines) {
    if (stage.lane == 0) failed = stage.acquired(awaitPiece(a, a.row, in.source, in.piece, n));
    if (__any_sync(allLanes, failed != statusOk)) return false;
  }
  for (uint32_t token = in.first; token < in.first + in.count; ++token) {
    if (!in.lines) {
      if (!receiveStaged(a, stage, to, token)) return false;
      continue;
    }
    failed = receiveLines(a, to, token, n);
    if (__any_sync(allLanes, failed != statusOk)) return false;
    listsOfLines(a, to, token);
  }
  return true;
}

GOCCL_DEVICE bool sendStaged(const DispatchArgs& a, uint32_t n) {
  if (!begin(a, n)) return false;
  return byWarps(a.row, a.abort, [&](Stage& stage) {
    for (uint32_t piece = stage.warp * a.senders + blockIdx.x; piece < pieces(a.tokens);
         piece += a.row.stages * a.senders)
      if (!sendStaged(a, stage, piece, n)) return false;
    return true;
  });
}

GOCCL_DEVICE bool receiveStaged(const DispatchArgs& a, uint32_t n, uint32_t block, uint32_t blocks) {
  return byWarps(a.row, a.abort, [&](Stage& stage) {
    return inTurn(a, stage.warp * blocks + block, a.row.stages * blocks,
                  [&](const Incoming& in) { return receiveStaged(a, stage, in, n); });
  });
}

// returnStaged sends the rows of a source's piece.
GOCCL_DEVICE bool returnStaged(const CombineArgs& a, Stage& stage, const Source& s, uint32_t piece, uint32_t n) {
  const uint32_t first = piece * pieceTokens;
  const uint32_t count = s.tokens - first < pieceTokens ? s.tokens - first : pieceTokens;
  const bool lines = s.tokens <= a.row.packets;
  for (uint32_t token = first; token < first + count; ++token) {
    if (lines) {
      if (returnLines<false>(a, s, token, n, stage.lane, 32) != statusOk) return false;
      continue;
    }
    const int32_t* places = placesOf(a, s.rank, token);
    if (!present(a, places)) continue;
    if (!stage.load(s.rowOf(places[0]), a.row.data)) return false;
    for (uint32_t at = a.row.data + stage.lane * 8; at < a.row.bytes; at += 32 * 8)
      stage.put(at, s.word<false>(places, nullptr, at));
    stage.seal();
    if (stage.lane != 0) continue;
    stage.store(rowAt(a, a.row, s.rank, a.rank, token), stagedBytes(a.row));
    stage.commit();
  }
  if (stage.lane == 0 && !lines) {
    stage.finish();
    storeRelease<Scope::sys>(flagAt(a, a.row, s.rank, a.rank, piece), n);
  }
  return true;
}

GOCCL_DEVICE bool returnStaged(const CombineArgs& a, uint32_t n) {
  if (!begin(a, n)) return false;
  return byWarps(a.row, a.abort, [&](Stage& stage) {
    return toSources(a, stage.warp * a.senders + blockIdx.x, a.row.stages * a.senders,
                     [&](const Source& s, uint32_t piece) {
                       return s.rank == a.rank || returnStaged(a, stage, s, piece, n);
                     });
  });
}

// dispatchStaged is dispatch, and combineStaged combine in the layout Rows, by stages.
GOCCL_DEVICE void dispatchStaged(const DispatchArgs& a) {
  const uint32_t n = number(a), block = blockIdx.x - a.senders, blocks = gridDim.x - a.senders;
  if (blockIdx.x < a.senders) {
    if (a.tokens <= a.row.packets ? send(a, n) : sendStaged(a, n)) end(a, n);
  } else if (receiveStaged(a, n, block, blocks)) {
    noLists(a, block, blocks);
    end(a, n);
  }
}

GOCCL_DEVICE void combineStaged(const CombineArgs& a) {
  const uint32_t n = number(a);
  if (blockIdx.x < a.senders ? returnStaged(a, n) : Adder<false, 2>(a, n).run()) end(a, n);
}

#endif  // GOCCL_STAGES

}  // namespace moe
}  // namespace goccl
