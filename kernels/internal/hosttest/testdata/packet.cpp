// Packets: epochs over two buffers, without any other synchronisation. A rank may run one epoch ahead of its peer,
// never two.
constexpr uint32_t threads = 3, epochs = 200;
constexpr uint64_t bytes = 61;  // not a multiple of a packet

template <class Packet>
void exchange(uint32_t rank, uint8_t* in, uint8_t* out, uint8_t* peerBuffer, uint8_t* buffer, Status* status) {
  uint32_t tid = threadIdx.x;
  uint64_t half = packetCount<Packet>(bytes) * sizeof(Packet);
  for (uint32_t e = 1; e <= epochs; ++e) {
    uint64_t offset = bug ? 0 : (e & 1) * half;
    for (uint64_t i = tid; i < bytes; i += threads) in[i] = pattern(rank, e, i);
    __syncthreads();
    if (rank == 1 && e % 16 == 0) sleepNs(100000);
    copyToPackets<Packet>(peerBuffer + offset, in, bytes, tid, threads, e);
    if (rank == 0 && e % 16 == 8) sleepNs(100000);
    Status s = copyFromPackets<Packet>(out, buffer + offset, bytes, tid, threads, e, abortBlock());
    if (s != statusOk) *status = s;
    if (__syncthreads_or(s != statusOk)) return;
    for (uint64_t i = tid; i < bytes; i += threads)
      CHECK(out[i] == pattern(1 - rank, e, i), "rank %u epoch %u byte %lu", rank, e, static_cast<unsigned long>(i));
    __syncthreads();
  }
}

template <class Packet>
void both() {
  Memory in0(bytes + 1), in1(bytes + 1), out0(bytes + 1), out1(bytes + 1), buf0(1024), buf1(1024);
  Status s0 = 0, s1 = 0;
  {
    // Odd addresses on one side: payloads need no alignment.
    Launch a(1, threads, exchange<Packet>, 0u, in0.data, out0.data + 1, buf1.data, buf0.data, &s0);
    Launch b(1, threads, exchange<Packet>, 1u, in1.data + 1, out1.data, buf0.data, buf1.data, &s1);
  }
  CHECK(s0 == statusOk && s1 == statusOk, "statuses %x %x", s0, s1);
}

void run() {
  both<LL16Packet>();
  both<LL8Packet>();
}
