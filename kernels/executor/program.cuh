// What the executor kernel gets: the program of a rank, one launch's sizes and addresses, and the memory that lives on
// between launches. The host's side is executor/gpu_layout.go; both are written from this file.
#pragma once

#include <goccl/device_syncer.cuh>

namespace goccl {
namespace executor {

constexpr uint32_t maxRanks = 16;
constexpr uint32_t maxRegions = 32;
constexpr uint32_t controlRecord = 64;    // bytes of a Record
constexpr uint32_t controlInbound = 128;  // where the inbound counters begin in a control window
constexpr uint32_t inboundStride = 32;

enum Code : uint8_t {
  codeNop = 0,
  codeBarrier = 1,
  codeSignal = 2,
  codeWait = 3,
  codeFlush = 4,
  codeAcquire = 5,
  codeRelease = 6,
  codeData = 7,
  codeLoop = 8,
  codeEndLoop = 9,
  // Through port channels to other hosts, see far.cuh. The table of ops has no such codes: the host encodes a put or a
  // signal so if its link leads there.
  codePush = 10,
  codePushSignal = 11,
};

enum Flag : uint8_t {
  flagRaw = 1,       // the source is packets that are copied as they are
  flagInner = 2,     // in a loop
  flagPackets = 4,   // some operand is packets
  flagRelaxed = 8,   // a signal that publishes nothing
  flagMeet = 16,     // the block's threads meet before the op
  flagStatic = 32,   // not in a loop, and plain operands are the rank's own: what the quick kernel takes
  flagCounted = 64,  // bytes beyond a count of the caller's do not exist
};

enum Plane : uint8_t { planeInput = 0, planeOutput = 1, planeScratch = 2, planePackets = 3 };

constexpr uint8_t callersOp = 255;

// An Op of codeData is one movement: every destination gets the reduction of all sources. An Op of codePush has one
// source, one destination, and behind them an entry.
struct Op {
  uint8_t code, flags, reduction;
  uint8_t pair;  // counted: of ranks, sender · ranks + receiver
  uint16_t sources, destinations;
  uint32_t first;  // record of the first operand (sources, then destinations) or entry
  uint32_t count;  // data: chunks of an operand; otherwise entries, or for a barrier blocks
  uint32_t to;     // loop: behind its end; end of loop: its first op
  uint32_t io;     // ranks whose input or output is touched, a bit each
  uint16_t slice, slices;
  // Loops: what all iterations together cover. Data: which sources are packets, a bit each, and 16 bits on which
  // destinations are.
  uint32_t chunks;
  // Loop: bytes of an iteration. Counted: which chunk of the pair's block the operands begin with. Static: the slice's
  // first byte, which the quick kernel writes.
  uint64_t unit;
  uint64_t bytes;  // static: the slice's size, in the same way
};
static_assert(sizeof(Op) == 48, "the host writes it");

// Operand is chunks of a plane of a rank. block and within are index divided by the period. Static operands say how
// many chunks; others, and entries, have 0 in that place.
struct Operand {
  uint8_t rank, plane;
  uint16_t chunks;
  uint32_t index, block, within;
};
// Place is what the quick kernel makes of a static operand: its address, or null where it does not lie in its buffer.
struct Place {
  uint8_t* at;
  uint64_t pad;
};
// Entry is a link (mine here, theirs on peer), a semaphore or a barrier (mine). signals are those that a link to
// another host gets.
struct Entry {
  uint16_t peer, pad0;
  uint32_t mine, theirs, signals;
};
union Item {
  Operand operand;
  Place place;
  Entry entry;
};
static_assert(sizeof(Item) == 16, "the host writes it");

// Header begins the program of a block; ops follow, then items. The epoch is the block's own word, which lives on
// between launches: it comes with the program's first load, and blocks need not agree on when to raise it, because
// every launch runs all of them.
struct Header {
  uint32_t ops, items;  // number of ops; offset of the items in bytes
  uint32_t epoch;       // of the last launch
  uint32_t count;       // of items
};

// Record is what a rank says of its launch, in its control window, by parity of the epoch.
struct Record {
  uint32_t epoch;      // stored last
  uint32_t signature;  // hash of the message's size, type and operator
  uint32_t region[2];  // of input and output; see Args::regions
  uint64_t offset[2];  // in the region
};
static_assert(sizeof(Record) <= controlRecord, "two fit before the counters");

struct Rank {
  uint8_t* control;
  uint8_t* scratch;
  uint64_t plain[2], packets[2];  // where the planes start in scratch, by parity
  uint64_t planeBytes;            // payload of a plane
  uint64_t size[2];               // of input and output
  uint64_t pad;
};

struct Far;

struct Args {
  Rank rank[maxRanks];
  uint8_t* program;  // of block b at b·stride
  const Far* far;    // of a plan with links to other hosts, else null
  DeviceSyncer* barriers;
  DeviceSemaphore* semaphores;
  uint64_t* expected;       // signals taken, by link
  uint64_t* peers;          // by block, rank: input, output
  const uint64_t* regions;  // address of region k of rank r here, at r·maxRegions + k
  AbortBlock* abort;
  // How many bytes each rank sends to each, by pair; null: all. Written before the launch, and the same until it ends:
  // each thread reads for itself, and all must find the same.
  const uint64_t* counts;
  uint8_t* buffer[2];  // own input and output
  uint64_t block;      // bytes
  uint64_t chunk;
  uint32_t period, shift;  // the unit of division is 1 << shift
  uint32_t self, nranks;
  uint32_t stride, shared;  // bytes of a block's program; whether it fits shared memory
  uint32_t op, linear;      // the caller's operator, with unsignedBit for unsigned types; no chunk is short
  uint32_t publish, signature;
  uint32_t region[2];
  uint64_t offset[2];
  uint32_t bulk, pad2;  // where the pipe of bulk copies lies in shared memory, 0 for none
};
static_assert(sizeof(Rank) == 80 && sizeof(Args) == 1280 + 11 * 8 + 2 * 8 + 10 * 4 + 2 * 4 + 2 * 8 + 2 * 4,
              "the host writes them");

}  // namespace executor
}  // namespace goccl
