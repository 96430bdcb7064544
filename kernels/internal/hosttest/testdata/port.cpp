// Port channels with direct operations: two channels of one connection, whose requests go to a slow proxy or are done
// by the thread itself. Called with a name, the program is broken there.
#include "proxy.hpp"

#include <random>

using namespace ranks;

constexpr uint32_t threads = 3, slots = 4, rounds = 200, slotBytes = 8192, channels = 2;

// Turn is one round: a thread writes the source, and another puts it and signals.
struct Turn {
  uint32_t writer, putter, putChannel, signalChannel, form;
  uint64_t size, dstOffset, srcOffset;

  static std::vector<Turn> all(uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<Turn> turns;
    for (uint32_t n = 0; n < rounds; ++n) {
      Turn t{};
      t.writer = random() % threads;
      t.putter = random() % threads;
      t.form = random() % 4;
      t.putChannel = random() % channels;
      t.signalChannel = t.form == 0 ? random() % channels : t.putChannel;
      const uint64_t sizes[] = {8, 16, 1 + random() % 300, random() % 4096, 256 * (1 + random() % 16), 5000};
      t.size = sizes[random() % 6];
      const uint64_t shifts[] = {0, 0, 0, random() % 16};
      t.dstOffset = n % slots * slotBytes + shifts[random() % 4];
      t.srcOffset = n % slots * slotBytes + shifts[random() % 4];
      turns.push_back(t);
    }
    return turns;
  }
};

struct Rig {
  Memory src{slots * slotBytes}, dst{slots * slotBytes};
  Proxy proxy;
  PortOrder* order = reinterpret_cast<PortOrder*>(newWord());
  PortChannelHandle sender[channels]{};
  SemaphoreHandle receiver[channels]{}, credit{}, credited{};

  explicit Rig(uint32_t naps) {
    proxy.memories = {dst.data, src.data};
    proxy.naps = naps;
    for (uint32_t c = 0; c < channels; ++c) {
      PortChannelHandle& ch = sender[c];
      connect(ch.semaphore, receiver[c]);
      proxy.semaphores.push_back(receiver[c].inbound);
      ch.fifo = proxy.handle();
      ch.flushDone = proxy.flushDone;
      ch.semaphoreId = c;
      ch.order = order;
      ch.dst = 0;
      ch.src = 1;
      ch.dstData = dst.data;
      ch.srcData = src.data;
      ch.dstSize = dst.bytes;
      ch.srcSize = src.bytes;
    }
    connect(credit, credited);
    proxy.start();
  }
  void check(uint64_t signals) {
    proxy.join();
    CHECK(loadRelaxed<Scope::sys>(&abortBlock()->reported) == 0, "a wait gave up");
    uint64_t sum = 0, stored = 0;
    for (uint32_t c = 0; c < channels; ++c) {
      CHECK(!receiver[c].poll(), "channel %u: a signal is left over", c);
      sum += receiver[c].inbound[0] + receiver[c].inbound[1];
      stored += receiver[c].inbound[1];
    }
    CHECK(sum == signals && stored > 0 && stored < signals, "%lu signals, %lu by the proxy", sum,
          stored);
  }
};

Status post(Rig& r, const Turn& t) {
  PortChannelHandle &ch = r.sender[t.putChannel], &other = r.sender[t.signalChannel];
  Status s = statusOk;
  switch (t.form) {
    case 0:
      s = ch.put(t.dstOffset, t.srcOffset, t.size);
      return s == statusOk ? other.signal() : s;
    case 1:
      return ch.putWithSignal(t.dstOffset, t.srcOffset, t.size);
    case 2:
      s = ch.putWithSignalAndFlush(t.dstOffset, t.srcOffset, t.size);
      break;
    default:
      s = ch.putWithSignal(t.dstOffset, t.srcOffset, t.size);
      if (s == statusOk) s = r.sender[1 - t.putChannel].flush();
  }
  // The source may be reused.
  std::memset(r.src.data + t.srcOffset, 0xee, t.size);
  return s;
}

// inTurn: threads take turns, with a barrier in between, and each signal comes after all that was asked before.
void inTurn(uint32_t seed) {
  Rig r(30000);
  const std::vector<Turn> turns = Turn::all(seed);
  auto send = [&] {
    for (uint32_t n = 0; n < rounds; ++n) {
      const Turn& t = turns[n];
      if (threadIdx.x == t.writer) {
        if (n >= slots) CHECK(r.credit.wait() == statusOk, "no credit in round %u", n);
        for (uint64_t i = 0; i < t.size; ++i) r.src.data[t.srcOffset + i] = pattern(0, n, i);
      }
      __syncthreads();
      if (threadIdx.x == t.putter) {
        Status s = post(r, t);
        CHECK(s == statusOk, "round %u: %x", n, s);
      }
      __syncthreads();
    }
  };
  auto receive = [&] {
    for (uint32_t n = 0; n < rounds; ++n) {
      const Turn& t = turns[n];
      CHECK(r.receiver[t.signalChannel].wait() == statusOk, "no signal in round %u", n);
      for (uint64_t i = 0; i < t.size; ++i)
        CHECK(r.dst.data[t.dstOffset + i] == pattern(0, n, i), "round %u: byte %lu of %lu", n, i, t.size);
      r.credited.signal();
    }
  };
  {
    Launch a(1, threads, send), b(1, 1, receive);
  }
  r.check(rounds);
}

// atOnce: threads put to their own ranges without order among them. No signal is lost, and all data is there when all
// signals are.
void atOnce(uint32_t seed) {
  Rig r(3000);
  const uint64_t slice = r.src.bytes / threads & ~uint64_t{15};
  auto send = [&] {
    std::mt19937 random(seed + threadIdx.x);
    const uint64_t at = slice * threadIdx.x;
    for (uint32_t n = 0; n < rounds; ++n) {
      const uint64_t size = random() % 16 == 0 ? 5000 : 96 + 16 * (random() % 8);
      PortChannelHandle& ch = r.sender[0];
      for (uint64_t i = 0; i < 96; ++i) r.src.data[at + i] = pattern(threadIdx.x, n, i);
      const bool flushes = random() % 2 == 0;
      const Status s = flushes ? ch.putWithSignalAndFlush(at, size) : ch.putWithSignal(at, size);
      CHECK(s == statusOk && ch.flush() == statusOk, "thread %u round %u: %x", threadIdx.x, n, s);
    }
  };
  auto receive = [&] {
    for (uint32_t n = 0; n < threads * rounds; ++n) CHECK(r.receiver[0].wait() == statusOk, "signal %u", n);
    for (uint32_t t = 0; t < threads; ++t)
      for (uint64_t i = 0; i < 96; ++i)
        CHECK(r.dst.data[slice * t + i] == pattern(t, rounds - 1, i), "thread %u byte %lu", t, i);
  };
  {
    Launch a(1, threads, send), b(1, 1, receive);
  }
  r.check(threads * rounds);
}

// limits: what is out of bounds, or too large, or not for this GPU, goes to the proxy.
void limits() {
  Rig r(0);
  r.proxy.join();
  PortChannelHandle& ch = r.sender[0];
  const uint64_t end = r.dst.bytes;
  uint64_t asked = 0;
  auto goes = [&](bool proxy, uint64_t dst, uint64_t src, uint64_t size) {
    asked += proxy;
    const Status s = ch.putWithSignal(dst, src, size);
    CHECK(s == statusOk && *r.proxy.head == asked, "%lu bytes from %lu to %lu", size, src, dst);
    *r.proxy.tailCache = asked;  // as if the proxy had taken and done it
    r.order->flushed = asked;
  };
  for (uint64_t size : {uint64_t{0}, uint64_t{1}, directMaxBytes, directMaxSize}) goes(false, end - size, 0, size);
  goes(false, 3, 5, directMaxBytes);
  goes(true, 3, 5, directMaxBytes + 1);
  goes(true, 0, 0, directMaxSize + 1);
  for (uint64_t over : {uint64_t{1}, uint64_t{1} << 40}) {
    goes(true, end - 8 + over, 0, 8);
    goes(true, 0, end - 8 + over, 8);
  }
  CHECK(ch.put(triggerMaxSize + 1, 0, 1) == statusInvalid, "an offset beyond 48 bits was taken");
  ch.order = nullptr;
  goes(true, 0, 0, 8);
}

int main(int argc, char** argv) {
  breakBy(argc, argv);
  limits();
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    inTurn(seed);
    atOnce(seed);
  }
}
