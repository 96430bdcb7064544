// A network between ranks: it puts what kernels post in rings (hosts/ring.cuh), and delivers the slots in random order.
// It stands for the proxies of all ranks.
#pragma once

#include <hosts/ring.cuh>

#include <random>
#include <thread>
#include <vector>

namespace ranks {

class Network {
 public:
  Network(uint32_t size, uint32_t lanes, uint32_t slots, uint32_t slotBytes)
      : size(size), lanes(lanes), slots(slots), slotBytes(slotBytes) {
    for (uint32_t i = 0; i < size * size; ++i) ends.push_back(std::make_unique<End>(*this));
    for (uint32_t a = 0; a < size; ++a)
      for (uint32_t b = 0; b < size; ++b)
        if (a != b) threads.emplace_back([this, a, b] { carry(end(a, b), end(b, a), a * 64 + b); });
  }
  ~Network() {
    stop = true;
    for (auto& t : threads) t.join();
  }

  // link is what the kernels of a rank know of a peer.
  goccl::hosts::Link link(uint32_t rank, uint32_t peer) {
    End& e = end(rank, peer);
    return goccl::hosts::Link{e.send.get(),    e.recv.get(),   e.post.data(),     e.flag.data(),
                              e.credit.data(), e.taken.data(), e.counters.data(), peer};
  }

 private:
  const uint32_t size, lanes, slots, slotBytes;

  // End is a rank's half of the link to a peer, as cudawire makes it.
  struct End {
    struct Free {
      void operator()(uint8_t* p) const { std::free(p); }
    };
    std::unique_ptr<uint8_t, Free> send, recv;
    std::vector<uint64_t> post, flag, credit, taken;
    std::vector<goccl::hosts::Counters> counters;
    explicit End(const Network& n)
        : send(ring(n)), recv(ring(n)), post(n.lanes * n.slots), flag(post), credit(n.lanes), taken(credit),
          counters(n.lanes) {}
    static uint8_t* ring(const Network& n) {
      const size_t bytes = size_t{n.lanes} * n.slots * n.slotBytes;
      return static_cast<uint8_t*>(std::memset(std::aligned_alloc(16, bytes), 0xee, bytes));
    }
  };
  std::vector<std::unique_ptr<End>> ends;
  std::atomic<bool> stop{false};
  std::vector<Thread> threads;

  End& end(uint32_t rank, uint32_t peer) { return *ends[rank * size + peer]; }

  void carry(End& from, End& to, uint32_t seed) {
    using namespace goccl;
    std::mt19937 random(seed);
    struct Put {
      uint32_t slot;
      uint64_t lap, bytes;
    };
    std::vector<Put> queue;
    std::vector<uint64_t> put(lanes), credited(lanes);
    while (!stop) {
      bool moved = false;
      for (uint32_t l = 0; l < lanes; ++l) {
        const uint32_t slot = l * slots + static_cast<uint32_t>(put[l] % slots);
        const uint64_t v = loadAcquire<Scope::sys>(&from.post[slot]);
        if (v >> 32 == put[l] / slots + 1) {
          queue.push_back({slot, v >> 32, v & 0xffffffff});
          ++put[l], moved = true;
        }
        const uint64_t due = loadAcquire<Scope::sys>(&to.taken[l]) / (slots / 2);
        if (credited[l] < due) {
          storeRelease<Scope::sys>(&from.credit[l], due * (slots / 2));
          credited[l] = due, moved = true;
        }
      }
      if (!queue.empty() && (!moved || random() % 2 == 0)) {
        std::swap(queue[random() % queue.size()], queue.back());
        const Put p = queue.back();
        queue.pop_back();
        CHECK(p.bytes <= slotBytes, "a slot of %lu bytes", static_cast<unsigned long>(p.bytes));
        std::memcpy(to.recv.get() + p.slot * slotBytes, from.send.get() + p.slot * slotBytes, p.bytes);
        storeRelease<Scope::sys>(&to.flag[p.slot], p.lap);
      } else if (!moved) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }
};

}  // namespace ranks
