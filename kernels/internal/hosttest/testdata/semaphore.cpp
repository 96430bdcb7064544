// Semaphore: what is written before a signal is seen after the wait; relaxed forms order nothing.
constexpr int rounds = 300;

struct Side {
  BaseMemoryChannelHandle channel;
  int* mine;   // I write it before I signal
  int* peers;  // I read it after I waited
};

void pingPong(Side* s, bool first, Status* status) {
  for (int i = 1; i <= rounds; ++i) {
    if (first) {
      *s->mine = i;
      if (bug)
        s->channel.relaxedSignal();
      else
        s->channel.signal();
    }
    *status = s->channel.wait();
    if (*status != statusOk) return;
    CHECK(*s->peers == i, "round %d: saw %d", i, *s->peers);
    if (!first) {
      *s->mine = i;
      s->channel.signal();
    }
  }
}

void run() {
  Side a{}, b{};
  connect(a.channel.semaphore, b.channel.semaphore);
  int x = 0, y = 0;
  a.mine = b.peers = &x;
  b.mine = a.peers = &y;
  Status sa = 0, sb = 0;
  {
    Launch la(1, 1, pingPong, &a, true, &sa), lb(1, 1, pingPong, &b, false, &sb);
  }
  CHECK(sa == statusOk && sb == statusOk, "statuses %x %x", sa, sb);
  CHECK(!a.channel.poll(), "a signal is left over");

  // An aborted wait returns the reason, reports it, consumes nothing, and the handle works afterwards.
  AbortBlock block{};
  a.channel.semaphore.abort = &block;
  std::thread host([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    storeRelease<Scope::sys>(&block.abort, 7u);
  });
  CHECK(a.channel.wait() == 7, "not aborted");
  host.join();
  CHECK(block.reported == 7 && block.op == waitSemaphore &&
            block.detail == reinterpret_cast<uint64_t>(a.channel.semaphore.inbound),
        "report %u %u", block.reported, block.op);
  block = AbortBlock{};
  block.spinLimitNs = 1000000;
  CHECK(a.channel.wait() == statusTimeout && block.reported == statusTimeout, "no timeout");
  CHECK(a.channel.wait(10) == statusTimeout, "maxSpin");
  block = AbortBlock{};
  b.channel.signal();
  CHECK(a.channel.wait() == statusOk, "the handle is dead after an abort");
}
