// The kernels of the tutorials and a measurement kernel, as they run on the GPU: memory channel put, get and packets
// between two ranks, a mesh of three over port channels with a proxy each, an all-reduce over switch channels.

constexpr uint32_t blocks = 2, threads = 3;

void memoryChannel() {
  constexpr uint64_t bytes = 203;
  Memory dst[2] = {Memory(bytes + 16), Memory(bytes + 16)}, src[2] = {Memory(bytes + 16), Memory(bytes + 16)},
         packets[2] = {Memory(1024), Memory(1024)};
  MemoryChannelHandle ch[2]{};
  connect(ch[0].semaphore, ch[1].semaphore);
  DeviceSyncer syncer[2]{};
  Status status[2] = {};
  for (uint32_t r = 0; r < 2; ++r) {
    ch[r].src = src[r].data + 3;
    ch[r].dst = dst[1 - r].data + 5;  // neither side is aligned
  }
  auto fill = [&](uint8_t* p, uint32_t r, uint32_t round) {
    for (uint64_t i = 0; i < bytes; ++i) p[i] = pattern(r, round, i);
  };
  auto check = [&](const uint8_t* p, uint32_t r, uint32_t round, const char* what) {
    CHECK(status[1 - r] == statusOk, "%s: status %x", what, status[1 - r]);
    for (uint64_t i = 0; i < bytes; ++i)
      CHECK(p[i] == pattern(r, round, i), "%s: byte %lu", what, static_cast<unsigned long>(i));
  };
  for (uint32_t round = 1; round <= 5; ++round) {
    for (uint32_t r = 0; r < 2; ++r) fill(ch[r].src, r, round);
    // The checks run inside the ranks, with nothing but the channel between the peer's writes and them.
    auto put = [&](uint32_t r) {
      tutorial_put(&ch[r], bytes, &syncer[r], &status[r]);
      if (leader()) check(dst[r].data + 5, 1 - r, round, "put");
    };
    Launch a(blocks, threads, put, 0u), b(blocks, threads, put, 1u);
  }
  for (uint32_t r = 0; r < 2; ++r) fill(dst[r].data + 5, r, 9);
  {
    Launch a(blocks, threads, tutorial_get, &ch[0], bytes, &syncer[0], &status[0]),
        b(blocks, threads, tutorial_get, &ch[1], bytes, &syncer[1], &status[1]);
  }
  for (uint32_t r = 0; r < 2; ++r) check(ch[r].src, 1 - r, 9, "get");

  for (uint32_t r = 0; r < 2; ++r) {
    ch[r].dst = packets[1 - r].data;
    ch[r].packetBuffer = packets[r].data;
  }
  for (uint32_t flag = 1; flag <= 5; ++flag) {
    for (uint32_t r = 0; r < 2; ++r) fill(ch[r].src, r, flag);
    {
      Launch a(blocks, threads, tutorial_packets, &ch[0], dst[0].data, bytes, flag, &status[0]),
          b(blocks, threads, tutorial_packets, &ch[1], dst[1].data, bytes, flag, &status[1]);
    }
    for (uint32_t r = 0; r < 2; ++r) check(dst[r].data, 1 - r, flag, "packets");
  }

  uint64_t ns = 0, ns1 = 0;
  uint32_t epochs[2] = {5, 5};
  {
    Launch a(1, 4, measure_packet, &ch[0], 1u, 30u, 20u, &epochs[0], &ns, &status[0]),
        b(1, 4, measure_packet, &ch[1], 0u, 30u, 20u, &epochs[1], &ns1, &status[1]);
  }
  CHECK(status[0] == statusOk && status[1] == statusOk && ns > 0 && epochs[0] == 25 && epochs[1] == 25,
        "packets: %x %x", status[0], status[1]);
}

void portMesh() {
  constexpr uint32_t n = 3;
  constexpr uint64_t slice = 96;
  std::vector<std::unique_ptr<Memory>> memory;
  for (uint32_t r = 0; r < n; ++r) memory.push_back(std::make_unique<Memory>(slice * n));
  Proxy proxy[n];
  PortChannelHandle channels[n][n]{};
  Status status[n] = {};
  SemaphoreHandle semaphores[n][n]{};
  for (uint32_t a = 0; a < n; ++a)
    for (uint32_t b = a + 1; b < n; ++b) connect(semaphores[a][b], semaphores[b][a]);
  for (uint32_t r = 0; r < n; ++r) {
    for (uint32_t p = 0; p < n; ++p) {
      proxy[r].memories.push_back(memory[p]->data);
      proxy[r].semaphores.push_back(semaphores[r][p].remoteInbound);
      PortChannelHandle& ch = channels[r][p];
      ch.semaphore = semaphores[r][p];
      ch.semaphore.remoteInbound = nullptr;
      ch.fifo = proxy[r].handle();
      ch.flushDone = proxy[r].flushDone;
      ch.semaphoreId = p;
      ch.dst = p;
      ch.src = r;
    }
    proxy[r].start();
  }
  for (uint32_t round = 1; round <= 10; ++round) {
    auto rank = [&](uint32_t r) {
      if (threadIdx.x == 0)
        for (uint64_t i = 0; i < slice; ++i) memory[r]->data[slice * r + i] = pattern(r, round, i);
      __syncthreads();
      tutorial_port_mesh(channels[r], r, n, slice, &status[r]);
      uint32_t p = threadIdx.x;
      if (p < n && p != r)
        for (uint64_t i = 0; i < slice; ++i)
          CHECK(memory[r]->data[slice * p + i] == pattern(p, round, i), "rank %u from %u round %u", r, p, round);
    };
    std::vector<Launch> launches;
    for (uint32_t r = 0; r < n; ++r) launches.emplace_back(1u, n, rank, r);
  }
  PortChannelHandle& ch = channels[0][1];
  CHECK(ch.put(triggerMaxSize + 1, 0, 1) == statusInvalid, "an offset beyond 48 bits was taken");
  for (uint32_t r = 0; r < n; ++r) {
    CHECK(status[r] == statusOk, "rank %u: %x", r, status[r]);
    proxy[r].join();
  }
}

void switchChannel() {
  constexpr uint32_t n = 3;
  constexpr uint64_t count = 4 * n * 5;
  std::vector<std::unique_ptr<Memory>> memory;
  uint8_t* peers[n];
  for (uint32_t r = 0; r < n; ++r) {
    memory.push_back(std::make_unique<Memory>(count * 4));
    peers[r] = memory[r]->data;
    for (uint64_t i = 0; i < count; ++i) reinterpret_cast<float*>(peers[r])[i] = static_cast<float>(i * (r + 1));
  }
  BaseMemoryChannelHandle channels[n][n]{};
  for (uint32_t a = 0; a < n; ++a)
    for (uint32_t b = a + 1; b < n; ++b) connect(channels[a][b].semaphore, channels[b][a].semaphore);
  SwitchChannelHandle handle[n];
  DeviceSyncer syncer[n]{};
  Status status[n] = {};
  {
    std::vector<Launch> launches;
    for (uint32_t r = 0; r < n; ++r) {
      handle[r] = SwitchChannelHandle{peers, n, r, count * 4, abortBlock()};
      launches.emplace_back(2u, n, tutorial_switch, &handle[r], channels[r], count, &syncer[r], &status[r]);
    }
  }
  for (uint32_t r = 0; r < n; ++r) {
    CHECK(status[r] == statusOk, "rank %u: %x", r, status[r]);
    for (uint64_t i = 0; i < count; ++i)
      CHECK(reinterpret_cast<float*>(peers[r])[i] == static_cast<float>(i * 6), "rank %u element %lu", r,
            static_cast<unsigned long>(i));
  }
}

void run() {
  memoryChannel();
  portMesh();
  switchChannel();
}
