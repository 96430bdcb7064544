// One fused all-reduce of n ranks on CPU threads: emulate < CASE > RESULTS. fused_test.go writes the case and compares.
// A case is the header below, the inputs of all ranks, the residual, the weight; a result of a rank is its sum, new
// residual, norm, quantised output and scales.
#include <fused/all_reduce.cuh>

using namespace goccl;
namespace f = goccl::fused;

struct Header {
  uint32_t ranks, tokens, hidden, type, algorithm, divided, residual, weight, quantisation, quantType, stage, blocks;
  float epsilon, scale;
};

std::vector<uint8_t> read(size_t bytes) {
  std::vector<uint8_t> v(bytes + 16);
  if (std::fread(v.data(), 1, bytes, stdin) != bytes) std::abort();
  return v;
}

template <Type T>
void run(const f::Args& a, uint32_t algorithm) {
  uint32_t* words = static_cast<uint32_t*>(sharedMemory(f::foldWords * 4));
  if (algorithm == 1)
    f::oneShot<T, 4>(a, words);
  else if (algorithm == 2)
    f::twoShot<T, 4>(a, words);
  else
    f::finishRows<T, 4>(a, words);
}

int main() {
  Header h;
  if (std::fread(&h, sizeof h, 1, stdin) != 1) return 2;
  const uint32_t size = h.type == static_cast<uint32_t>(Type::float32) ? 4 : 2;
  const size_t elements = size_t(h.tokens) * h.hidden, bytes = elements * size;
  std::vector<std::vector<uint8_t>> inputs;
  for (uint32_t r = 0; r < h.ranks; ++r) inputs.push_back(read(bytes));
  const auto residual = read(bytes), weight = read(h.hidden * size);
  const uint32_t slice = (h.tokens + h.ranks - 1) / h.ranks;
  const size_t slot = (size_t(h.tokens) * h.hidden * size + 15) / 16 * 16;
  AbortBlock abort{};
  abort.spinLimitNs = 20000000000;
  struct Rank {
    std::vector<uint8_t> window, residual, sum, residualOut, norm, quant;
    std::vector<float> scales;
    std::vector<uint32_t> passes;
  };
  std::vector<Rank> ranks(h.ranks);
  for (auto& r : ranks) {
    r.window.assign(h.blocks * f::areas * 2 * h.ranks * slot + 16, 0);
    r.residual = residual;
    for (auto* v : {&r.sum, &r.residualOut, &r.norm}) v->resize(bytes);
    r.quant.resize(elements), r.scales.resize(h.tokens);
    r.passes.resize(h.blocks * f::passStride);
  }
  std::vector<Launch> launches;
  for (uint32_t r = 0; r < h.ranks; ++r) {
    f::Args a{};
    for (uint32_t p = 0; p < h.ranks; ++p)
      a.window[p] = ranks[p].window.data() + (-reinterpret_cast<uintptr_t>(ranks[p].window.data()) & 15);
    a.abort = &abort, a.passes = ranks[r].passes.data(), a.slotBytes = static_cast<uint32_t>(slot);
    a.rank = r, a.nranks = h.ranks, a.tokens = h.tokens, a.hidden = h.hidden;
    a.input = inputs[r].data(), a.residual = h.residual ? ranks[r].residual.data() : nullptr;
    a.weight = h.weight ? weight.data() : nullptr;
    a.sum = ranks[r].sum.data(), a.residualOut = ranks[r].residualOut.data(), a.norm = ranks[r].norm.data();
    a.quantisation = h.quantisation, a.quantType = h.quantType, a.quant = ranks[r].quant.data();
    a.scale = &h.scale, a.scaleOut = ranks[r].scales.data();
    a.epsilon = h.epsilon, a.stage = h.stage, a.divided = h.divided, a.slice = slice;
    a.end = h.algorithm == 2 ? slice : h.tokens;
    const uint32_t groups = h.hidden / 8, threads = groups >= 512 ? 512 : (groups + 31) / 32 * 32;
    launches.emplace_back(h.blocks < a.end ? h.blocks : a.end, threads, [a, &h] {
      if (h.type == static_cast<uint32_t>(Type::float16))
        run<Type::float16>(a, h.algorithm);
      else if (h.type == static_cast<uint32_t>(Type::bfloat16))
        run<Type::bfloat16>(a, h.algorithm);
      else
        run<Type::float32>(a, h.algorithm);
    });
  }
  for (auto& l : launches) l.join();
  if (abort.reported != 0) return 3;
  for (auto& r : ranks) {
    for (auto* v : {&r.sum, &r.residualOut, &r.norm, &r.quant}) std::fwrite(v->data(), 1, v->size(), stdout);
    std::fwrite(r.scales.data(), 4, r.scales.size(), stdout);
  }
  return 0;
}
