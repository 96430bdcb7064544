// Switch channels in their unicast form: a kernel's reduce loads from every rank, its broadcast stores to every rank.
// No multicast object is used.
#pragma once

#include <goccl/core.hpp>
#include <goccl/handle.hpp>

namespace goccl {

template <class Handle>
class SwitchChannelOf {
 public:
  using DeviceHandle = Handle;
  SwitchChannelOf() = default;
  // All ranks of the communicator make it together, with memory of the same size. Channels that are made at a
  // time have different tags.
  SwitchChannelOf(Communicator& communicator, const RegisteredMemory& memory, int tag = 0) : memory_(memory) {
    const auto m = memory.in(communicator.context()->object());
    object_ = detail::make("create a switch channel", {m, communicator.object()}, goccl_switch_channel_create,
                           communicator.object()->handle, detail::currentDevice(), m->handle, tag, int64_t{0});
  }
  DeviceHandle deviceHandle() const { return detail::readHandle<Handle>(object_, "switch channel"); }
  // The local memory.
  void* getDevicePtr() { return memory_.data(); }

 private:
  RegisteredMemory memory_;
  detail::ObjectPtr object_;
};

using SwitchChannel = SwitchChannelOf<SwitchChannelHandle>;

}  // namespace goccl
