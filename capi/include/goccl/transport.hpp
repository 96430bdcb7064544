// Transports, devices, and what an endpoint is made with.
#pragma once

#include <bitset>
#include <goccl/object.hpp>
#include <ostream>

namespace goccl {

// Transport is numbered as in goccl_primitive.h.
enum class Transport { Unknown, CudaIpc, IB0, IB1, IB2, IB3, IB4, IB5, IB6, IB7, Ethernet, NumTransports };

// TransportFlags is a set of transports.
class TransportFlags {
 public:
  static constexpr size_t Size = static_cast<size_t>(Transport::NumTransports);
  using Bits = std::bitset<Size>;

  TransportFlags() = default;
  TransportFlags(Transport t) : bits_(Bits().set(static_cast<size_t>(t))) {}
  explicit TransportFlags(Bits bits) : bits_(bits) {}

  bool has(Transport t) const { return bits_[static_cast<size_t>(t)]; }
  bool none() const { return bits_.none(); }
  bool any() const { return bits_.any(); }
  bool all() const { return bits_.all(); }
  size_t count() const { return bits_.count(); }
  Bits toBitset() const { return bits_; }

  TransportFlags& operator|=(TransportFlags o) { return *this = *this | o; }
  TransportFlags& operator&=(TransportFlags o) { return *this = *this & o; }
  TransportFlags& operator^=(TransportFlags o) { return *this = *this ^ o; }
  TransportFlags operator~() const { return TransportFlags(~bits_); }
  friend TransportFlags operator|(TransportFlags a, TransportFlags b) { return TransportFlags(a.bits_ | b.bits_); }
  friend TransportFlags operator&(TransportFlags a, TransportFlags b) { return TransportFlags(a.bits_ & b.bits_); }
  friend TransportFlags operator^(TransportFlags a, TransportFlags b) { return TransportFlags(a.bits_ ^ b.bits_); }
  friend bool operator==(TransportFlags a, TransportFlags b) { return a.bits_ == b.bits_; }
  friend bool operator!=(TransportFlags a, TransportFlags b) { return a.bits_ != b.bits_; }

 private:
  Bits bits_;
};

inline TransportFlags operator|(Transport a, Transport b) { return TransportFlags(a) | TransportFlags(b); }
inline TransportFlags operator&(Transport a, Transport b) { return TransportFlags(a) & TransportFlags(b); }
inline TransportFlags operator^(Transport a, Transport b) { return TransportFlags(a) ^ TransportFlags(b); }

inline const TransportFlags NoTransports{};
inline const TransportFlags AllIBTransports{TransportFlags::Bits(0x3fc)};
inline const TransportFlags AllTransports{TransportFlags::Bits(0x7fe)};

enum class DeviceType { Unknown, CPU, GPU };

// Device is a GPU, or the CPU. A GPU without an id is the calling thread's current one. With GOCCL_DEVICE=host a GPU is
// the host device of that number.
struct Device {
  Device() = default;
  Device(DeviceType type, int id = -1) : type(type), id(id) {}
  DeviceType type = DeviceType::Unknown;
  int id = -1;
};

struct EndpointConfig {
  // Ib is for InfiniBand transports.
  struct Ib {
    enum class Mode { Default, Host, HostNoAtomic };
    static constexpr int DefaultPort = -1, DefaultGidIndex = -1, DefaultMaxCqSize = 1024, DefaultMaxCqPollNum = 256,
                         DefaultMaxSendWr = 8192, DefaultMaxRecvWr = 16, DefaultMaxWrPerSend = 64;
    Ib(int deviceIndex = -1, int port = DefaultPort, int gidIndex = DefaultGidIndex, int maxCqSize = DefaultMaxCqSize,
       int maxCqPollNum = DefaultMaxCqPollNum, int maxSendWr = DefaultMaxSendWr, int maxRecvWr = DefaultMaxRecvWr,
       int maxWrPerSend = DefaultMaxWrPerSend, Mode mode = Mode::Default)
        : deviceIndex(deviceIndex),
          port(port),
          gidIndex(gidIndex),
          maxCqSize(maxCqSize),
          maxCqPollNum(maxCqPollNum),
          maxSendWr(maxSendWr),
          maxRecvWr(maxRecvWr),
          maxWrPerSend(maxWrPerSend),
          mode(mode) {}
    // Values that are not changed are chosen by goccl.
    bool chosen() const {
      return deviceIndex >= 0 || port >= 0 || gidIndex >= 0 || maxCqSize != DefaultMaxCqSize ||
             maxSendWr != DefaultMaxSendWr || maxRecvWr != DefaultMaxRecvWr;
    }
    int deviceIndex, port, gidIndex, maxCqSize, maxCqPollNum, maxSendWr, maxRecvWr, maxWrPerSend;
    Mode mode;
  };

  EndpointConfig(Transport transport = Transport::Unknown, Device device = DeviceType::GPU, int maxWriteQueueSize = -1,
                 Ib ib = {})
      : transport(transport), device(device), maxWriteQueueSize(maxWriteQueueSize), ib(ib) {}
  Transport transport;
  Device device;
  int maxWriteQueueSize;
  Ib ib;
};

inline std::ostream& operator<<(std::ostream& out, Transport t) {
  switch (t) {
    case Transport::CudaIpc:
      return out << "IPC";
    case Transport::Ethernet:
      return out << "ETH";
    case Transport::Unknown:
    case Transport::NumTransports:
      return out << "UNK";
    default:
      return out << "IB" << static_cast<int>(t) - static_cast<int>(Transport::IB0);
  }
}
inline std::ostream& operator<<(std::ostream& out, DeviceType t) {
  return out << (t == DeviceType::CPU ? "CPU" : t == DeviceType::GPU ? "GPU" : "UNK");
}
inline std::ostream& operator<<(std::ostream& out, const Device& d) {
  out << d.type;
  return d.id < 0 ? out : out << d.id;
}

namespace detail {

inline uint32_t maskOf(TransportFlags flags) { return static_cast<uint32_t>(flags.toBitset().to_ulong()); }

inline goccl_device currentDevice() {
  goccl_device h = 0;
  check(goccl_device_current(0, &h), "current device");
  return h;
}

inline goccl_device openDevice(const Device& d) {
  if (d.type == DeviceType::Unknown) misuse("a device of unknown type: use DeviceType::GPU or DeviceType::CPU");
  if (d.type == DeviceType::GPU && d.id < 0) return currentDevice();
  goccl_device h = 0;
  check(goccl_device_open(d.type == DeviceType::CPU ? GOCCL_DEVICE_HOST : 0, d.id < 0 ? 0 : d.id, &h), "open device");
  return h;
}

}  // namespace detail
}  // namespace goccl
