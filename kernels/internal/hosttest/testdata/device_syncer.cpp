// DeviceSyncer: plain data written before a sync by one block is read after it by another, with different numbers of
// blocks from launch to launch.
constexpr uint32_t threads = 2, rounds = 40;

void neighbours(DeviceSyncer* syncer, int* cells, Status* status) {
  uint32_t n = gridDim.x * threads, me = blockIdx.x * threads + threadIdx.x;
  for (uint32_t r = 0; r < rounds; ++r) {
    cells[me] = static_cast<int>(r * 100 + me);
    Status s = syncer->sync(gridDim.x, abortBlock());
    uint32_t other = (me + threads) % n;
    if (s == statusOk) {
      CHECK(cells[other] == static_cast<int>(r * 100 + other), "round %u: %u saw %d", r, me, cells[other]);
      if (!bug || r % 4 != 3) s = syncer->sync(gridDim.x, abortBlock());
    }
    if (s != statusOk) {
      if (threadIdx.x == 0) storeRelaxed<Scope::gpu>(status, s);
      return;
    }
  }
}

// permits: at most two blocks are between acquire and release.
void permits(DeviceSemaphore* semaphore, uint32_t* inside, Status* status) {
  for (uint32_t r = 0; r < rounds; ++r) {
    Status s = semaphore->acquire(abortBlock());
    if (s != statusOk) {
      storeRelaxed<Scope::gpu>(status, s);
      return;
    }
    uint32_t now = fetchAddRelaxed<Scope::gpu>(inside, 1u);
    CHECK(now < 2, "%u inside", now + 1);
    fetchAddRelaxed<Scope::gpu>(inside, static_cast<uint32_t>(-1));
    semaphore->release();
  }
}

void run() {
  DeviceSyncer syncer{};
  std::vector<int> cells(64);
  Status status = 0;
  for (uint32_t blocks : {3u, 1u, 4u, 2u}) {
    Launch(blocks, threads, neighbours, &syncer, cells.data(), &status).join();
    CHECK(status == statusOk, "%u blocks: status %x", blocks, status);
  }
  DeviceSemaphore semaphore{};
  semaphore.set(2);
  uint32_t inside = 0;
  Launch(4, 1, permits, &semaphore, &inside, &status).join();
  CHECK(status == statusOk, "permits: status %x", status);

  // A block that never comes: the others return the same status on all threads.
  AbortBlock block{};
  block.spinLimitNs = 1000000;
  std::vector<Status> seen(threads);
  DeviceSyncer lonely{};
  Launch(1, threads, [&] { seen[threadIdx.x] = lonely.sync(2, &block); }).join();
  for (Status s : seen) CHECK(s == statusTimeout, "status %x", s);
}
