// The collective kernels, several launches in a row on ranks that drift apart: collective NAME [MUTATION...]. A
// mutation is a line of the kernels that collective_test.go has made breakable.
#include "lamports.hpp"
#include "rings.hpp"

using namespace ranks;

// Launches of one owner on streams that know nothing of each other but the tickets: every cell is changed by another
// thread each time, and some have none.
struct TicketArgs {
  uint64_t* ticket;
  uint32_t *cell, cells, launch;
};
GOCCL_KERNEL(ticketed, 64, 1, TicketArgs) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;; i += gridDim.x * blockDim.x) {
    if (i >= a.cells) return;
    CHECK(a.cell[i] == a.launch, "launch %u finds %u in cell %u", a.launch, a.cell[i], i);
    jitter();
    a.cell[i] = a.launch + 1;
  }
}

void tickets() {
  constexpr uint32_t streams = 3, launches = 24, cells = 40, threads = 12;
  uint64_t* word = newWord();
  *word = 0xffffffffffffffe8;  // it may wrap
  std::vector<uint32_t> cell(cells, 0);
  std::vector<uint64_t> before{*word};
  auto blocks = [](uint32_t l) { return 1 + l % 3; };
  for (uint32_t l = 0; l < launches; ++l) before.push_back(before[l] + blocks(l));
  std::vector<Thread> hosts;
  for (uint32_t s = 0; s < streams; ++s)
    hosts.emplace_back([&, s] {
      for (uint32_t l = s; l < launches; l += streams) {
        while (static_cast<int64_t>(loadAcquire<Scope::gpu>(word) - before[l]) < 0) sleepNs(20000);
        Launch(blocks(l), threads, [&, l] { GOCCL_ENTRY(ticketed)(TicketArgs{word, cell.data(), cells, l}); }).join();
      }
    });
  for (auto& h : hosts) h.join();
  CHECK(*word == before[launches], "the word is %lx, not %lx", static_cast<unsigned long>(*word),
        static_cast<unsigned long>(before[launches]));
  Launch(2, threads, [&] { GOCCL_ENTRY(ticketed)(TicketArgs{nullptr, cell.data(), cells, launches}); }).join();
  CHECK(*word == before[launches] && cell[0] == launches + 1, "a launch without a ticket");
}

// many: more ranks than a thread has packets of in flight, some of them late.
void many() {
  stragglers = true;
  constexpr uint32_t n = 8;
  lamportRuns<Type::bfloat16, n>(0xfffffffd, 2, 4);
  auto all = [](const auto& cases, uint32_t threads) {
    for (const Case& c : cases)
      if ((std::strstr(c.name, "ll128") != nullptr) == (threads == 32)) runCase(c, n, threads, 0xfffffffe, 2);
  };
  all(reductions, 4), all(moves, 4), all(eightRanks, 4), all(eightRanks, 32);
  RingWorld(rings, n, 3, 0xfffffff0).run(1);
  RingWorld(folds, n, 3, 0xfffffff0).run(1);
  RingWorld(directs, 5, 5, 0xfffffff0).run(1);
  Streams(5, 5).run(1, 1, stream);
  const uint32_t counted = 5 * p2pChannels;
  Exchange(5, 8, 1, ringOffset(5, 0) + counted * 128, counted * 2 * 32, 0xfffffff0)
      .run(1, 8, pointToPoint<PacketBytes, P2PArgs>);
}

int main(int argc, char** argv) {
  breakBy(argc, argv, 2);
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "reduce")
    reduceAll();
  else if (name == "move")
    moveAll();
  else if (name == "messages")
    messages();
  else if (name == "device-counts")
    deviceCounts();
  else if (name == "no-counts")
    noCounts();
  else if (name == "wrong-counts")
    wrongCounts();
  else if (name == "outside-counts")
    outsideCounts();
  else if (name == "streams")
    streams();
  else if (name == "ring")
    ringAll();
  else if (name == "ring-aborted")
    ringAborted();
  else if (name == "direct")
    directAll();
  else if (name == "direct-aborted")
    directAborted();
  else if (name == "fold")
    foldAll();
  else if (name == "fold-aborted")
    foldAborted();
  else if (name == "lamport")
    lamport();
  else if (name == "tickets")
    tickets();
  else if (name == "many")
    many();
  else
    return 2;
  return 0;
}
