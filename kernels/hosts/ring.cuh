// Rings of slots in which a kernel and the network meet. The kernel copies a chunk into a slot of its ring, a proxy on
// the host puts it into the same slot of the peer's ring, and the peer's kernel takes it from there.
//
// Each pair of ranks has `lanes` rings of `slots` slots in each direction. A ring has one producer and one consumer at
// a time. Chunk k of a ring since the rings were made is in slot k mod slots.
//
//   sender's block     waits until credit > k − slots, copies, then stores post[slot] = lap, bytes      (release)
//   sender's proxy     polls post, puts the slot to the peer with the slot's own counter
//   receiver's host    stores flag[slot] = arrivals in this slot, when the slot has arrived             (release)
//   receiver's block   waits until flag[slot] = lap, takes the chunk, then stores taken = k + 1         (release)
//   receiver's proxy   polls taken, and after every half of the ring adds to the sender's credit
//
// A slot has its own counter at the peer, so the network may deliver chunks in any order. The counts k are in device
// memory: any launch can be replayed from a graph. The host's half is engine/hosts/cudawire.
#pragma once

#include <goccl/abort.cuh>

namespace goccl {
namespace hosts {

constexpr uint32_t header = 16;  // bytes at the beginning of a slot: how many bytes follow, and the tag

// statusMismatch is reported when a peer's message has another size or tag than this rank expects. detail is the size
// of the peer's chunk.
constexpr Status statusMismatch = 0xffff0003;

// Counters of one lane of a link, in device memory. Only the lane's block of the running launch accesses them.
struct Counters {
  uint64_t sent;      // chunks
  uint64_t credit;    // a value that Link::credit has had
  uint64_t received;  // chunks
  uint64_t passed;    // chunks of this launch that are in their slots: see Reduction::own. 0 between launches
};

// Link is what a kernel knows of a peer: in device memory, one for each rank of the communicator.
struct Link {
  uint8_t* send;      // rings of lanes·slots slots that the network reads and writes
  uint8_t* recv;
  uint64_t* post;     // mapped host memory, a word for each slot: lap << 32 | bytes of the slot in use
  uint64_t* flag;     // mapped host memory, a word for each slot: how many chunks have arrived in it
  uint64_t* credit;   // mapped host memory, a word for each lane: chunks that the peer has taken
  uint64_t* taken;    // mapped host memory, a word for each lane: chunks that this rank has taken
  Counters* counters; // a set for each lane
  uint64_t peer;      // the rank, for errors
};
static_assert(sizeof(Link) == 64 && sizeof(Counters) == 32, "Link is filled by the host");

// await is waitUntil, for one thread of a block, which may look at the abort word before it waits: launches that are
// queued behind a failed one end at once, and not after the polls between two looks, which are 20 ms over PCIe.
template <class Done>
GOCCL_DEVICE Status await(Done done, AbortBlock* abort, const void* detail, uint32_t op, uint32_t peer) {
  if (done()) return statusOk;
  const Status aborted = loadRelaxed<Scope::sys>(&abort->abort);
  return aborted != statusOk ? aborted : waitUntil(done, abort, detail, op, -1, peer);
}

// RingOf is one lane of one link in this launch. Shape has the rings' lanes, slots, slotBytes and tag, and the launch's
// abort block.
template <class Shape>
struct RingOf {
  const Shape& a;
  const Link& link;
  uint32_t lane;

  GOCCL_DEVICE Counters& counters() const { return link.counters[lane]; }
  GOCCL_DEVICE uint32_t index(uint64_t k) const { return lane * a.slots + static_cast<uint32_t>(k % a.slots); }
  GOCCL_DEVICE uint64_t lap(uint64_t k) const { return k / a.slots + 1; }
  GOCCL_DEVICE uint8_t* sendSlot(uint64_t k) const { return link.send + uint64_t{index(k)} * a.slotBytes; }
  GOCCL_DEVICE const uint8_t* recvSlot(uint64_t k) const { return link.recv + uint64_t{index(k)} * a.slotBytes; }

  // awaitCredit waits until slot k can be filled. One thread calls it.
  GOCCL_DEVICE Status awaitCredit(uint64_t k) const {
    Counters& c = counters();
    if (k - c.credit < a.slots) return statusOk;
    uint64_t seen = 0;
    const uint64_t* word = link.credit + lane;
    const uint32_t depth = a.slots;
    const Status s = await([&] { return k - (seen = loadAcquire<Scope::sys>(word)) < depth; }, a.abort, word,
                           waitSemaphore, static_cast<uint32_t>(link.peer));
    c.credit = seen;
    return s;
  }
  // label and post hand a filled slot to the proxy: label before the barrier that ends the copy, post after it. One
  // thread calls both.
  GOCCL_DEVICE void label(uint64_t k, uint64_t bytes) const {
    storeVec(sendSlot(k), make_uint4(static_cast<uint32_t>(bytes), 0, static_cast<uint32_t>(a.tag),
                                     static_cast<uint32_t>(a.tag >> 32)));
  }
  GOCCL_DEVICE void post(uint64_t k, uint64_t bytes) const {
    storeRelease<Scope::sys>(link.post + index(k), lap(k) << 32 | (bytes + header));
  }
  // awaitArrival waits for chunk k, of which bytes are expected. One thread calls it; the others see the chunk after a
  // barrier.
  GOCCL_DEVICE Status awaitArrival(uint64_t k, uint64_t bytes) const {
    const uint64_t* word = link.flag + index(k);
    const uint64_t want = lap(k);
    const uint32_t peer = static_cast<uint32_t>(link.peer);
    const Status s = await([&] { return loadAcquire<Scope::sys>(word) >= want; }, a.abort, word, waitPacket, peer);
    if (s != statusOk) return s;
    const uint4 v = loadVec(recvSlot(k));
    const uint64_t tag = static_cast<uint64_t>(v.w) << 32 | v.z;
    if (v.x == static_cast<uint32_t>(bytes) && (tag == a.tag || tag == 0 || a.tag == 0)) return statusOk;
    // Behind a launch that has failed this may be a chunk which that one did not take.
    const Status before = loadRelaxed<Scope::sys>(&a.abort->reported);
    if (before != statusOk) return before;
    report(a.abort, statusMismatch, reinterpret_cast<const void*>(uintptr_t{v.x}), 0, peer);
    return statusMismatch;
  }
  // free gives slots back, after a barrier that ends the reads of chunk k. One thread calls it.
  GOCCL_DEVICE void free(uint64_t k) const {
    if (returns(k)) storeRelease<Scope::sys>(link.taken + lane, k + 1);
  }
  // returns says whether the proxy sends a credit after chunk k.
  GOCCL_DEVICE bool returns(uint64_t k) const { return (k + 1) % (a.slots / 2) == 0; }
};

}  // namespace hosts
}  // namespace goccl
