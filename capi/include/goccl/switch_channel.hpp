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
    goccl_object h = 0;
    const auto m = memory.in(communicator.context()->object());
    detail::check(
        goccl_switch_channel_create(communicator.object()->handle, detail::currentDevice(), m->handle, tag, 0, &h),
        "create a switch channel");
    object_ = detail::own(h, {m, communicator.object()});
  }
  DeviceHandle deviceHandle() const {
    DeviceHandle h;
    detail::readHandle(object_, "switch channel", h);
    return h;
  }
  // The local memory.
  void* getDevicePtr() { return memory_.data(); }

 private:
  RegisteredMemory memory_;
  detail::ObjectPtr object_;
};

using SwitchChannel = SwitchChannelOf<SwitchChannelHandle>;

}  // namespace goccl
