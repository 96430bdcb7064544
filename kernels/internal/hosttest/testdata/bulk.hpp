// Bulk copies and mbarriers on threads of the host, with the semantics of PTX: bulk_test.go puts these functions in the
// place of the instructions of goccl/bulk.cuh, whose text is otherwise compiled as it is.
//
// # Copies
//
// The copy engine of a device, a thread, makes its copies later and in any order: it picks one of all that are under
// way, and lets it read its source or, after that, write its target and complete.
//
// To ThreadSanitizer every step is a thread (a fiber), which is ordered with others only as PTX says:
//
//   mbarrier.arrive, complete_tx -> a try_wait that succeeds, of that phase
//   a copy has read, has ended   -> wait_group.read, wait_group of the thread that issued it, and of no other
//   the end of a copy            -> the end of the launch
//
// # Proxies
//
// A generic write is ordered before the accesses of a copy only where a fence.proxy.async lies between. So a thread has
// a view for each state space: another fiber, whose clock is what the thread knew at its last fence for that space.
// Where threads synchronise inside a block, their views do. A copy reads with the view of its issuer, and before it
// writes it reads its target so: that is a race if a write to either was not fenced. It writes with all that its issuer
// knew when it issued: what others have read may be overwritten if they have said so, without a fence. What a copy has
// written is in the views of those that have seen its end.
//
// # What is not modelled
//
// Views are not passed on between blocks: a fence before a release does not count at the other side of the flag, one
// after the acquire does, as bulk.cuh demands. The begin of a kernel is a fence of all earlier work. The end of a copy
// is a fence for those that see it, in the space of its target, of all that its issuer knew when it issued. Copies of
// one thread that are `turns` apart are ordered. A try_wait is ordered with every second earlier phase, not with all.
// A waiting thread is not suspended for as long as the hardware would. Clusters, multicast and L2 hints do not exist.
#pragma once

#include "device.hpp"

namespace bulk {

inline void releaseAll(Clocks& c) {
  c.own.release();
  for (uint32_t s = 0; s < spaces; ++s) member->view[s].release(c.view[s]);
}
inline void acquireAll(Clocks& c) {
  c.own.acquire();
  for (uint32_t s = 0; s < spaces; ++s) member->view[s].acquire(c.view[s]);
}

// meet passes views on where a block or a warp meets.
inline void meet(::Group& group, bool after) {
  if (member == nullptr) return;
  const bool warp = &group == currentWarp;
  Clocks& c = block->meetings[warp ? 1 + threadIdx.x / warpSize : 0][member->meetings[warp] & 1];
  for (uint32_t s = 0; s < spaces; ++s)
    after ? member->view[s].acquire(c.view[s]) : member->view[s].release(c.view[s]);
  member->meetings[warp] += after;
}

// Addresses of shared memory are 32 bits, from the block's first byte.
inline uint32_t sharedAddress(const void* p) {
  const uint64_t at = static_cast<uint64_t>(static_cast<const uint8_t*>(p) - block->memory);
  CHECK(at < sharedBytes, "address %p is not in the block's shared memory", p);
  return static_cast<uint32_t>(at);
}
inline uint64_t* barrierWord(uint32_t at) {
  CHECK(at % 8 == 0, "mbarrier at %u", at);
  return reinterpret_cast<uint64_t*>(block->memory + at);
}
inline void barrierInit(uint32_t at, uint32_t arrivals) {
  uint64_t* const word = barrierWord(at);
  uint64_t number = 0;
  {
    Lock l(device->mutex);
    number = *word;
    CHECK(number == 0 || number > block->barriers.size(), "mbarrier at %u is initialised again", at);
    Barrier& b = block->barriers.emplace_back();
    b.count = b.pending = arrivals;
    number = block->barriers.size();
  }
  *word = number;
}
inline void barrierInvalidate(uint32_t at) {
  uint64_t* const word = barrierWord(at);
  const uint64_t number = *word;
  {
    Lock l(device->mutex);
    barrierAt(*block, word, number);
  }
  *word = 0;
}

inline void barrierArrive(uint32_t at, uint32_t bytes = 0) {
  const uint64_t* const word = barrierWord(at);
  const uint64_t number = *word;
  Lock l(device->mutex);
  Barrier& b = barrierAt(*block, word, number);
  CHECK(b.pending > 0, "mbarrier at %u: more than %u arrivals in phase %u", at, b.count, b.phase);
  b.bytes += bytes;
  CHECK(b.bytes < mostBytes, "mbarrier at %u expects too many bytes", at);
  releaseAll(b.clocks[b.phase & 1]);
  --b.pending;
  settle(b);
}
// barrierPoll is try_wait.parity.
inline bool barrierPoll(uint32_t at, uint32_t parity) {
  static thread_local Patience patience;
  const uint64_t* const word = barrierWord(at);
  const uint64_t number = *word;
  for (bool waited = false;; waited = true) {
    Event* changed;
    uint32_t seen;
    {
      Lock l(device->mutex);
      Barrier& b = barrierAt(*block, word, number);
      if ((b.phase & 1) != parity) {
        acquireAll(b.clocks[parity]);
        patience = Patience{};
        return true;
      }
      changed = &b.changed, seen = changed->count;
    }
    if (waited) break;
    changed->wait(seen);
  }
  patience.check("an mbarrier");
  return false;
}

inline Issuer& issuer() {
  if (member->issuer == nullptr) {
    CHECK(block->issuing < block->issuers.size(), "too many threads of a block issue copies");
    member->issuer = &block->issuers[block->issuing++];
  }
  return *member->issuer;
}
inline Copy* newCopy(Space from, Space to, const void* source, void* target, uint32_t bytes) {
  const uint64_t all = reinterpret_cast<uintptr_t>(source) | reinterpret_cast<uintptr_t>(target) | bytes;
  CHECK(all % 16 == 0 && bytes > 0 && bytes <= sizeof Copy::data, "a copy of %u bytes from %p to %p", bytes, source,
        target);
  const uint8_t* const inside = static_cast<const uint8_t*>(from == shared ? source : target);
  CHECK(inside + bytes <= block->memory + sharedBytes, "a copy of %u bytes beyond shared memory", bytes);
  Copy* const c = new Copy{};
  c->block = block, c->from = from, c->to = to, c->bytes = bytes;
  c->source = static_cast<const uint8_t*>(source), c->target = static_cast<uint8_t*>(target);
  Issuer& i = issuer();
  c->by = i.copyists[i.turn++ % turns].get();
  releaseAll(c->issued);
  return c;
}
inline void load(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  Lock l(device->mutex);
  Copy* const c = newCopy(global, shared, from, block->memory + to, bytes);
  c->barrier = barrierWord(barrier);
  device->issue(c);
}
inline void store(void* to, uint32_t from, uint32_t bytes) {
  Lock l(device->mutex);
  Copy* const c = newCopy(shared, global, block->memory + from, to, bytes);
  Issuer& i = issuer();
  if (i.open == nullptr) i.open = &i.groups.emplace_back();
  c->issuer = &i, c->group = i.open;
  ++c->group->reading, ++c->group->writing;
  device->issue(c);
}
inline void commit() {
  Lock l(device->mutex);
  Issuer& i = issuer();
  if (i.open == nullptr) i.groups.emplace_back();
  i.open = nullptr;
}
// wait is wait_group, and wait_group.read if it is for sources.
inline void wait(uint32_t most, bool sources) {
  Patience patience;
  for (;;) {
    Event* changed;
    uint32_t seen;
    {
      Lock l(device->mutex);
      Issuer& i = issuer();
      const size_t committed = i.groups.size() - (i.open != nullptr), over = committed > most ? committed - most : 0;
      bool done = true;
      for (size_t g = 0; g < over; ++g) done &= (sources ? i.groups[g].reading : i.groups[g].writing) == 0;
      if (done) {
        for (size_t g = 0; g < over; ++g) {
          (sources ? i.groups[g].read : i.groups[g].ended).acquire();
          if (!sources) member->view[global].acquire(i.groups[g].ended);
          i.groups[g].readSeen = true;
        }
        if (!sources) i.groups.erase(i.groups.begin(), i.groups.begin() + static_cast<long>(over));
        return;
      }
      changed = &i.changed, seen = changed->count;
    }
    changed->wait(seen);
    patience.check("bulk groups");
  }
}

// staticShared and dynamicShared are the block's shared memory.
template <class T, uint32_t N>
inline T (&staticShared(uint32_t at))[N] {
  static_assert(N * sizeof(T) <= dynamicAt);
  CHECK(at + sizeof(T) * N <= dynamicAt, "too many static variables");
  return *reinterpret_cast<T(*)[N]>(block->memory + at);
}
inline uint8_t* dynamicShared() { return block->memory + dynamicAt; }

}  // namespace bulk
