// LL128: lines of 120 bytes and a flag, by warps, over two buffers.
constexpr uint32_t epochs = 12, lines = 4;

void exchange(uint32_t rank, uint8_t* peerBuffer, uint8_t* buffer, Status* status) {
  uint32_t lane = threadIdx.x;
  for (uint32_t e = 1; e <= epochs; ++e) {
    uint64_t offset = bug ? 0 : (e & 1) * lines * ll128Line;
    uint64_t line = offset + lane / 8 * ll128Line;
    uint32_t w = rank * 1000 + e * 10 + lane;
    if (rank == 1 && e % 4 == 0) sleepNs(200000);
    ll128Store(peerBuffer + line, make_uint4(w, w + 1, w + 2, w + 3), e);
    if (rank == 0 && e % 4 == 2) sleepNs(200000);
    uint4 v;
    Status s = ll128Load(buffer + line, v, e, abortBlock());
    if (s != statusOk) {
      *status = s;
      return;
    }
    uint32_t want = (1 - rank) * 1000 + e * 10 + lane;
    CHECK(v.x == want && v.y == want + 1 && (lane % 8 == 7 || (v.z == want + 2 && v.w == want + 3)),
          "rank %u epoch %u lane %u: %u", rank, e, lane, v.x);
  }
}

void run() {
  Memory a(2 * lines * ll128Line), b(2 * lines * ll128Line);
  Status s0 = 0, s1 = 0;
  {
    Launch x(1, warpSize, exchange, 0u, b.data, a.data, &s0), y(1, warpSize, exchange, 1u, a.data, b.data, &s1);
  }
  CHECK(s0 == statusOk && s1 == statusOk, "statuses %x %x", s0, s1);
}
