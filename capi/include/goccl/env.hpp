// The environment variables that matter to programs, as values. docs/environment.md describes them.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

namespace goccl {

class Env;
std::shared_ptr<Env> env();

// Env is a snapshot. Fields of MSCCL++ that goccl has no use for are empty or false.
class Env {
 public:
  const std::string debug = first("GOCCL_DEBUG", "NCCL_DEBUG"), debugSubsys, debugFile = first("NCCL_DEBUG_FILE");
  const std::string logLevel = debug, logSubsys, logFile = debugFile;
  const std::string hcaDevices, ibvSo, ibvMode;
  const std::string hostid = first("GOCCL_HOSTID");
  const std::string socketFamily = first("GOCCL_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY");
  const std::string socketIfname = first("GOCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME");
  const std::string commId = first("NCCL_COMM_ID"), cacheDir = first("GOCCL_CACHE_DIR"), npkitDumpDir;
  const std::string ncclSharedLibPath, forceNcclFallbackOperation;
  const bool cudaIpcUseDefaultStream = false, ncclSymmetricMemory = false, forceDisableNvls = true,
             forceDisableGdr = false;
  const int ibGidIndex = 0;
  // goccl's own.
  const std::string device = first("GOCCL_DEVICE"), timeout = first("GOCCL_TIMEOUT"),
                    opTimeout = first("GOCCL_OP_TIMEOUT");

 private:
  Env() = default;
  static std::string first(const char* name, const char* other = nullptr) {
    const char* s = std::getenv(name);
    if ((!s || !*s) && other) s = std::getenv(other);
    return s ? s : "";
  }
  friend std::shared_ptr<Env> env();
};

inline std::shared_ptr<Env> env() {
  static const std::shared_ptr<Env> once(new Env);
  return once;
}

}  // namespace goccl
