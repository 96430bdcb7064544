// Blocks that make bulk copies, and the copy engine of their device: see bulk.hpp.
#pragma once

#include "fibers.hpp"

#include <deque>
#include <random>

namespace bulk {

constexpr uint32_t sharedBytes = 8 << 10, dynamicAt = 2 << 10;  // of a block; dynamic shared memory lies behind
constexpr uint32_t turns = 3;            // copies of a thread that are not ordered by themselves
constexpr uint32_t mostBytes = 1 << 20;  // that an mbarrier may expect: less than this
enum Space { shared, global, spaces };

// Clocks are what a thread passes on: its own clock, and its views.
struct Clocks {
  Clock own, view[spaces];
};

// Barrier is an mbarrier. Its word in shared memory holds its number.
struct Barrier {
  uint32_t count, pending, phase = 0;
  int64_t bytes = 0;
  Clocks clocks[2];  // by parity of the phase
  Event changed;
};

// Fibers that make the copies of one thread.
struct Copyist {
  Fiber reader, looker, writer;
};

// Group is a bulk group of stores.
struct Group {
  uint32_t reading = 0, writing = 0;  // copies that have yet to do so
  bool readSeen = false;              // by a wait
  Clock read, ended;
};

struct Issuer;
struct Block;

struct Copy {
  Block* block;
  Copyist* by;
  Space from, to;
  const uint8_t* source;
  uint8_t* target;
  uint32_t bytes;
  uint64_t* barrier;  // of a load
  Issuer* issuer;     // of a store
  Group* group;
  bool read = false;
  Clocks issued;
  Clock middle;
  alignas(16) uint8_t data[4096];
};

// Issuer is what a thread that issues copies has in a launch.
struct Issuer {
  std::vector<std::unique_ptr<Copyist>> copyists;
  uint32_t turn = 0;
  std::deque<Group> groups;
  Group* open = nullptr;  // the last of them, before it is committed
  Event changed;

  Issuer() {
    for (uint32_t i = 0; i < turns; ++i) copyists.push_back(std::make_unique<Copyist>());
  }
};

// Member is a thread of a block. Its fibers serve it in all launches.
struct Member {
  Fiber view[spaces];
  Issuer* issuer = nullptr;
  uint32_t meetings[2] = {};  // of the block, of its warp
};

struct Block {
  alignas(128) uint8_t memory[sharedBytes];
  std::deque<Barrier> barriers;
  uint32_t threads = 0;         // that have not ended
  uint32_t moving = 0;          // copies that have yet to read or write shared memory
  std::vector<Issuer> issuers;  // of all launches
  uint32_t issuing = 0;
  Clocks meetings[17][2];  // of the block, of its warps
};

inline void meet(::Group& group, bool after);

// Device is where the blocks of a rank run. Devices are made before any rank begins: a fiber knows what its maker knew.
class Device {
 public:
  // issuers is the number of threads of a block that issue copies.
  Device(uint32_t blocks, uint32_t threads, uint32_t seed, uint32_t issuers = 2)
      : members_(blocks * threads), blocks_(blocks), dice_(seed) {
    for (Block& b : blocks_) b.issuers = std::vector<Issuer>(issuers);
    meeting = meet;
    engine_ = std::thread([this] { copyAll(); });
  }
  ~Device() {
    {
      Lock l(mutex);
      stopped_ = true;
      work_.happen();
    }
    engine_.join();
  }

  // run launches a kernel and waits for its end, and for the end of its copies.
  template <class Kernel>
  void run(uint32_t blocks, uint32_t threads, Kernel kernel);

  void issue(Copy* c) {
    queue_.push_back(c);
    ++outstanding_;
    ++c->block->moving;
    work_.happen();
  }

  std::mutex mutex;  // of all state of the device and its blocks

 private:
  void copyAll();
  void read(Copy* c);
  void write(Copy* c);

  std::vector<Member> members_;
  std::vector<Block> blocks_;
  std::vector<Copy*> queue_;
  uint32_t outstanding_ = 0;
  Clock ended_;
  Event work_, idle_;
  std::mt19937 dice_;
  bool stopped_ = false;
  std::thread engine_;
};

inline thread_local Device* device;
inline thread_local Block* block;
inline thread_local Member* member;
inline std::atomic<uint64_t> progress{0};  // copies and phases that have ended anywhere

// Patience ends a program whose threads wait for each other for ever: nothing has happened for half a minute.
struct Patience {
  uint64_t seen = ~uint64_t{0};
  std::chrono::steady_clock::time_point since;
  void check(const char* what) {
    const uint64_t now = progress.load(std::memory_order_relaxed);
    const auto time = std::chrono::steady_clock::now();
    if (now != seen) seen = now, since = time;
    CHECK(time - since < std::chrono::seconds(30), "thread %u of block %u waits for %s for ever",
          threadIdx.x, blockIdx.x, what);
  }
};

// fence is fence.proxy.async for a space.
inline void fence(Space s) {
  Clock now;
  now.release();
  member->view[s].acquire(now);
}

// barrierAt is what a word stands for. Its look at the word races with an init or inval that is not ordered with it.
inline Barrier& barrierAt(Block& b, const uint64_t* word, uint64_t number) {
  CHECK(number > 0 && number <= b.barriers.size(), "mbarrier at %ld is not initialised",
        static_cast<long>(reinterpret_cast<const uint8_t*>(word) - b.memory));
  return b.barriers[number - 1];
}

// settle completes the phase if nothing is missing. The lock is held.
inline void settle(Barrier& b) {
  if (b.pending != 0 || b.bytes != 0) return;
  ++b.phase;
  b.pending = b.count;
  progress.fetch_add(1, std::memory_order_relaxed);
  b.changed.happen();
}
// read and write are the steps of a copy.
inline void Device::read(Copy* c) {
  Copyist& by = *c->by;
  by.reader.acquire(c->issued.view[c->from]);
  by.reader.copy(c->data, c->source, c->bytes);
  by.reader.release(c->middle);
  by.looker.acquire(c->issued.view[c->to]);
  by.looker.look(c->target, c->bytes);
  by.looker.release(c->middle);
  Lock l(mutex);
  c->read = true;
  queue_.push_back(c);
  if (c->group == nullptr) return;
  by.reader.release(c->group->read);
  --c->group->reading;
  --c->block->moving;
  c->issuer->changed.happen();
}
inline void Device::write(Copy* c) {
  Copyist& by = *c->by;
  const uint64_t number = c->barrier != nullptr ? by.looker.look(c->barrier, 8) : 0;
  by.looker.release(c->middle);
  by.writer.acquire(c->issued.own);
  by.writer.acquire(c->middle);
  by.writer.copy(c->target, c->data, c->bytes);
  Lock l(mutex);
  by.writer.release(ended_);
  if (c->barrier != nullptr) {
    Barrier& b = barrierAt(*c->block, c->barrier, number);
    Clocks& clocks = b.clocks[b.phase & 1];
    by.writer.release(clocks.own);
    by.writer.release(clocks.view[shared]);
    b.bytes -= c->bytes;
    --c->block->moving;
    settle(b);
  } else {
    by.writer.release(c->group->ended);
    --c->group->writing;
    c->issuer->changed.happen();
  }
  progress.fetch_add(1, std::memory_order_relaxed);
  if (--outstanding_ == 0) idle_.happen();
  delete c;
}
inline void Device::copyAll() {
  for (;;) {
    Copy* c = nullptr;
    uint32_t seen = 0, dice = 0;
    {
      Lock l(mutex);
      if (stopped_) return;
      seen = work_.count;
      dice = dice_();
      if (!queue_.empty()) {
        const size_t i = dice % queue_.size();
        c = queue_[i];
        queue_[i] = queue_.back();
        queue_.pop_back();
      }
    }
    if (c == nullptr) {
      work_.wait(seen);
      continue;
    }
    if ((dice >> 16) % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice >> 24));
    c->read ? write(c) : read(c);
  }
}

template <class Kernel>
inline void Device::run(uint32_t blocks, uint32_t threads, Kernel kernel) {
  CHECK(blocks <= blocks_.size() && blocks * threads <= members_.size(), "a launch of %u blocks", blocks);
  {
    Lock l(mutex);
    for (uint32_t b = 0; b < blocks; ++b) {
      blocks_[b].barriers.clear();
      blocks_[b].threads = threads;
      blocks_[b].issuing = 0;
      for (uint32_t i = 0; i < sharedBytes; ++i) blocks_[b].memory[i] = static_cast<uint8_t>(0xa5 + i * 7);
    }
  }
  Launch(blocks, threads, [&] {
    device = this, block = &blocks_[blockIdx.x], member = &members_[blockIdx.x * blockDim.x + threadIdx.x];
    {
      Lock l(mutex);
      member->issuer = nullptr, member->meetings[0] = member->meetings[1] = 0;
    }
    for (uint32_t s = 0; s < spaces; ++s) fence(static_cast<Space>(s));
    kernel();
    Lock l(mutex);
    if (Issuer* i = member->issuer) {
      CHECK(i->open == nullptr, "thread %u of block %u ends with an open group", threadIdx.x, blockIdx.x);
      for (const Group& g : i->groups)
        CHECK(g.readSeen, "thread %u of block %u ends, and has not waited for its stores", threadIdx.x, blockIdx.x);
    }
    CHECK(--block->threads > 0 || block->moving == 0, "block %u ends while copies use its memory", blockIdx.x);
    member = nullptr;
  }).join();
  for (;;) {
    uint32_t seen = 0;
    {
      Lock l(mutex);
      if (outstanding_ == 0) break;
      seen = idle_.count;
    }
    idle_.wait(seen);
  }
  ended_.acquire();
  Lock l(mutex);
  for (uint32_t b = 0; b < blocks; ++b)
    for (Issuer& i : blocks_[b].issuers) i.groups.clear(), i.open = nullptr;
}

}  // namespace bulk
