// Object, the base of every class of the C++ library: a shared handle of the C ABI.
//
// Classes are values that share their object; the object is closed with its last owner, before the objects that it was
// made from. Any number of threads may use an object.
#pragma once

#include <goccl_primitive.h>

#include <future>
#include <goccl/errors.hpp>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace goccl {
namespace detail {

class Object {
 public:
  using Keep = std::vector<std::shared_ptr<const void>>;

  Object(goccl_object handle, Keep keep, bool owned = true) : handle(handle), keep_(std::move(keep)), owned_(owned) {}
  ~Object() {
    if (owned_ && handle) (void)goccl_object_close(handle);
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  const goccl_object handle;

 private:
  Keep keep_;  // what the object was made from; it is released after the object is closed
  bool owned_;
};

using ObjectPtr = std::shared_ptr<Object>;

inline ObjectPtr own(goccl_object handle, Object::Keep keep = {}) {
  return std::make_shared<Object>(handle, std::move(keep));
}

// make is the object that a function of the C ABI stores at its last argument; keep holds its sources.
template <class Create, class... Args>
ObjectPtr make(const char* what, Object::Keep keep, Create create, Args... args) {
  goccl_object h = 0;
  check(create(args..., &h), what);
  return own(h, std::move(keep));
}

// handleOf is 0 for an object that was never made.
inline goccl_object handleOf(const ObjectPtr& object, const char* what) {
  if (!object) misuse(std::string(what) + " is empty: it was default-constructed and never assigned");
  return object->handle;
}

inline std::vector<char> serialize(const ObjectPtr& object, const char* what) {
  void* data = nullptr;
  uint64_t size = 0;
  check(goccl_object_serialize(handleOf(object, what), &data, &size), what);
  std::vector<char> bytes(static_cast<char*>(data), static_cast<char*>(data) + size);
  goccl_release(data);
  return bytes;
}

// readHandle returns a kernel's handle, of the type of goccl/handle.cuh.
template <class Handle>
Handle readHandle(const ObjectPtr& object, const char* what) {
  Handle out;
  void* data = nullptr;
  uint64_t size = 0;
  check(goccl_object_device_handle(handleOf(object, what), &data, &size), what);
  const bool fits = size == sizeof(Handle);
  if (fits) std::memcpy(static_cast<void*>(&out), data, size);
  goccl_release(data);
  if (!fits)
    misuse(std::string(what) + ": the library's handle has " + std::to_string(size) + " bytes, the header's " +
           std::to_string(sizeof(Handle)) + ": use headers and library of one release");
  return out;
}

// Exchanged is an object, or still the bytes that a peer sent: then it becomes an object of the first context that uses
// it.
class Exchanged {
 public:
  using Read = goccl_result (*)(goccl_object context, const void* data, uint64_t size, goccl_object* object);

  Exchanged(ObjectPtr object, ObjectPtr context) : object_(std::move(object)), context_(std::move(context)) {}
  Exchanged(Read read, std::vector<char> bytes) : read_(read), bytes_(std::move(bytes)) {}

  ObjectPtr in(const ObjectPtr& context) {
    std::lock_guard<std::mutex> hold(mutex_);
    if (!object_) {
      object_ = make("deserialize", {context}, read_, handleOf(context, "context"), bytes_.data(), bytes_.size());
      context_ = context;
    }
    return object_;
  }
  // context is null while the object is bytes.
  ObjectPtr context() {
    std::lock_guard<std::mutex> hold(mutex_);
    return context_;
  }

 private:
  std::mutex mutex_;
  ObjectPtr object_, context_;
  Read read_ = nullptr;
  std::vector<char> bytes_;
};

// later is the future of what make gives for the object of a goccl future. The first get waits.
template <class T, class Make>
std::shared_future<T> later(ObjectPtr future, const char* what, Make make) {
  return std::async(std::launch::deferred,
                    [future = std::move(future), what, make = std::move(make)]() -> T {
                      goccl_object h = 0;
                      check(goccl_future_wait(future->handle, 0, &h), what);
                      return make(h);
                    })
      .share();
}

}  // namespace detail
}  // namespace goccl
