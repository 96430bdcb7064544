// FIFO: several producers, one consumer, a ring much shorter than the traffic. Each trigger arrives whole and once, in
// each producer's order.
constexpr uint32_t producers = 3, pushes = 300, slots = 4;

void produce(FifoHandle* fifo, uint64_t* payload, Status* status) {
  for (uint32_t i = 0; i < pushes; ++i) {
    uint32_t id = threadIdx.x * pushes + i;
    payload[id] = id * 3 + 1;
    uint64_t pos;
    FifoHandle f = *fifo;
    Status s = f.push(makeTrigger(triggerData, threadIdx.x, id, i & 0xffff, id * 2, id + 5, id), pos);
    if (s != statusOk) {
      *status = s;
      return;
    }
    if (i % 100 == 99 && f.sync(pos) != statusOk) {
      *status = statusTimeout;
      return;
    }
  }
}

void run() {
  std::vector<Trigger> ring(slots);
  FifoHandle fifo{ring.data(), newWord(), newWord(), newWord(), slots, 0, abortBlock()};
  std::vector<uint64_t> payload(producers * pushes);
  Status status = 0;
  uint32_t next[producers] = {};
  {
    Launch launch(1, producers, produce, &fifo, payload.data(), &status);
    for (uint64_t pos = 0; pos < producers * pushes;) {
      Trigger* slot = &ring[pos % slots];
      uint64_t last = loadAcquire<Scope::sys>(&slot->semaphoreAndLap);
      if (last >> 32 != pos / slots + 1) {
        CHECK(loadRelaxed<Scope::sys>(&abortBlock()->reported) == 0, "a producer gave up at %lu",
              static_cast<unsigned long>(pos));
        std::this_thread::yield();
        continue;
      }
      if (bug) storeRelease<Scope::sys>(fifo.tail, pos + 1);  // the slot is given back before it is read
      uint32_t id = static_cast<uint32_t>(last), producer = id / pushes, i = id % pushes;
      uint64_t w0 = slot->sizeAndType, w1 = slot->srcOffsetAndId, w2 = slot->dstOffsetAndId;
      if (!bug) storeRelease<Scope::sys>(fifo.tail, pos + 1);
      CHECK(w0 == ((id + 5) | uint64_t{triggerData} << 48) && w1 == (id * 2 | static_cast<uint64_t>(i) << 48) &&
                w2 == (id | static_cast<uint64_t>(producer) << 48),
            "trigger %u is torn: %lx %lx %lx", id, static_cast<unsigned long>(w0), static_cast<unsigned long>(w1),
            static_cast<unsigned long>(w2));
      CHECK(next[producer] == i, "producer %u: %u after %u", producer, i, next[producer]);
      CHECK(payload[id] == id * 3 + 1, "the push of %u did not publish what was written before", id);
      ++next[producer];
      ++pos;
    }
  }
  CHECK(status == statusOk, "status %x", status);
}
