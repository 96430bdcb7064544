// The host's name and its InfiniBand devices.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <goccl/transport.hpp>

namespace goccl {

// getHostName ends before the first delim, and has at most maxlen - 1 characters.
inline std::string getHostName(int maxlen, const char delim) {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1)) throw SysError("gethostname", errno);
  std::string s(name);
  s = s.substr(0, s.find(delim));
  return s.substr(0, maxlen > 0 ? static_cast<size_t>(maxlen - 1) : 0);
}

namespace detail {

template <class T>
inline void hashCombine(std::size_t& seed, const T& value) {
  seed = seed * 1099511628211u ^ std::hash<T>()(value);
}

inline std::vector<std::string> ibDevices() {
  std::vector<std::string> names;
  if (DIR* dir = opendir("/sys/class/infiniband")) {
    while (const dirent* e = readdir(dir))
      if (e->d_name[0] != '.') names.emplace_back(e->d_name);
    closedir(dir);
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return names;
}
}  // namespace detail

inline int getIBDeviceCount() { return static_cast<int>(detail::ibDevices().size()); }

inline std::string getIBDeviceName(Transport t) {
  const auto names = detail::ibDevices();
  const int i = static_cast<int>(t) - static_cast<int>(Transport::IB0);
  if (t < Transport::IB0 || t > Transport::IB7) detail::misuse("getIBDeviceName: the transport is not IB0 to IB7");
  if (i >= static_cast<int>(names.size()))
    detail::misuse("IB" + std::to_string(i) + ": this host has " + std::to_string(names.size()) +
                   " InfiniBand devices");
  return names[static_cast<size_t>(i)];
}

inline Transport getIBTransportByDeviceName(const std::string& name) {
  const auto names = detail::ibDevices();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end() || found - names.begin() > 7)
    detail::misuse(name + " is none of this host's first eight InfiniBand devices");
  return static_cast<Transport>(static_cast<int>(Transport::IB0) + static_cast<int>(found - names.begin()));
}

// goccl shares memory within a host by descriptors, not by fabric handles.
inline bool isFabricMemHandleAvailable() { return false; }

}  // namespace goccl
