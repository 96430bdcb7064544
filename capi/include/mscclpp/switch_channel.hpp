// Switch channels by MSCCL++'s names. They are unicast: no multicast object is made.
#pragma once

#include <goccl/switch_channel.hpp>
#include <mscclpp/gpu_utils.hpp>
#include <mscclpp/switch_channel_device.hpp>

namespace mscclpp {

using SwitchChannel = goccl::SwitchChannelOf<SwitchChannelDeviceHandle>;

// NvlsConnection makes switch channels among all ranks of a communicator.
class NvlsConnection {
 public:
  NvlsConnection(std::shared_ptr<Communicator> communicator, size_t bufferSize)
      : communicator_(std::move(communicator)), left_(bufferSize) {}
  // All ranks bind together, with the same size. Sizes add up to at most the connection's.
  SwitchChannel bindAllocatedMemory(unsigned long long devicePtr, size_t size) {
    if (size > left_)
      goccl::detail::misuse("bindAllocatedMemory of " + std::to_string(size) + " bytes: the connection has room for " +
                            std::to_string(left_) + ": ask connectNvlsCollective for more");
    left_ -= size;
    auto memory = communicator_->registerMemory(reinterpret_cast<void*>(devicePtr), size, Transport::CudaIpc);
    return SwitchChannel(*communicator_, memory, tag_++);
  }

 private:
  static constexpr int firstTag = 0x60cc3;  // tags of sendMemory that programs do not use
  std::shared_ptr<Communicator> communicator_;
  size_t left_;
  int tag_ = firstTag;
};

inline std::shared_ptr<NvlsConnection> connectNvlsCollective(std::shared_ptr<Communicator> communicator,
                                                             std::vector<int> allRanks, size_t bufferSize) {
  const auto n = static_cast<size_t>(communicator->bootstrap()->getNranks());
  if (allRanks.size() != n)
    goccl::detail::misuse("connectNvlsCollective of " + std::to_string(allRanks.size()) +
                          " ranks: the communicator has " + std::to_string(n) +
                          ", and all take part: make a communicator of those ranks");
  return std::make_shared<NvlsConnection>(std::move(communicator), bufferSize);
}

}  // namespace mscclpp
