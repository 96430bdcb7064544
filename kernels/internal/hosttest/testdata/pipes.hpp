// BulkPipe: several copies in a row, of which the later ones read what the earlier ones have read or written.
#pragma once

#include "litmus.hpp"

namespace litmus {

inline void pipes(uint32_t seed, uint32_t launches) {
  constexpr uint32_t blocks = 2, chunk = 48, stages = 4, most = 1600;
  bulk::Device device(blocks, threads, seed);
  ranks::Memory from(most), to[3] = {ranks::Memory(most), ranks::Memory(most), ranks::Memory(most)};
  std::mt19937 dice(seed);
  for (uint32_t launch = 0; launch < launches; ++launch) {
    const uint32_t sizes[] = {most, 16, 640, 320}, size = sizes[launch % 4];
    for (uint32_t i = 0; i < most; ++i) from.data[i] = static_cast<uint8_t>(dice());
    for (ranks::Memory& m : to) std::memset(m.data, 0xee, most);
    device.run(blocks, threads, [&] {
      if (!first()) return;
      fenceProxyAsync();
      BulkPipe pipe;
      pipe.init(tile(), chunk, stages, ranks::abortBlock());
      Status s = pipe.copy(to[0].data, from.data, size, blockIdx.x, gridDim.x);
      s |= pipe.copy(to[1].data, from.data, size, blockIdx.x, gridDim.x);
      pipe.finish();
      s |= pipe.copy(to[2].data, to[0].data, size, blockIdx.x, gridDim.x);
      pipe.finish();
      CHECK(s == statusOk, "status %x", s);
    });
    for (const ranks::Memory& m : to)
      for (uint32_t i = 0; i < most; ++i)
        CHECK(m.data[i] == (i < size ? from.data[i] : 0xee), "launch %u, %u bytes: byte %u", launch, size, i);
  }
}

}  // namespace litmus
