// The signals of PyTorch's symmetric memory, on its signal pads: a word for each channel and sender, which the sender
// sets when it is 0 and the receiver resets when it is 1.
#include <goccl/abort.cuh>

using namespace goccl;

constexpr int everyone = -1;  // all other ranks

// One thread for each rank. pads has the pads of all ranks; abort, which may be null, and nanoseconds, unless 0, bound
// the waits: after an abort the kernel ends, and after the time it traps, as PyTorch's own does. A signal orders memory
// in one direction, from the sender's store of 1 to the receiver's load of it. The 0, which hands the word back, does
// not, as in PyTorch.
extern "C" __global__ void symmetric_signal(uint32_t* const* pads, const uint32_t* abort, uint64_t nanoseconds,
                                            int rank, int size, int channel, int to, int from) {
  const int peer = threadIdx.x;
  if (peer >= size) return;
  const uint64_t begin = globalTimer();
  const auto check = [&] {
    if (abort != nullptr && loadRelaxed<Scope::sys>(abort) != 0) return statusAborted;
    if (nanoseconds != 0 && globalTimer() - begin > nanoseconds) __trap();
    return statusOk;
  };
  if (to == peer || (to == everyone && peer != rank)) {
    uint32_t* const word = pads[peer] + channel * size + rank;
    if (spin([&] { return loadRelaxed<Scope::sys>(word) == 0; }, check) != statusOk) return;
    storeRelease<Scope::sys>(word, 1u);
  }
  if (from == peer || (from == everyone && peer != rank)) {
    uint32_t* const word = pads[rank] + channel * size + peer;
    if (spin([&] { return loadAcquire<Scope::sys>(word) == 1; }, check) != statusOk) return;
    storeRelaxed<Scope::sys>(word, 0u);
  }
}
