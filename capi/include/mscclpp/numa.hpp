// Where a GPU is attached, and running there.
#pragma once

#include <mscclpp/gpu_utils.hpp>

#include <sched.h>

#include <cctype>
#include <fstream>

namespace mscclpp {

#if GOCCL_CUDA_RUNTIME
// getDeviceNumaNode is -1 where the machine does not say.
inline int getDeviceNumaNode(int device) {
  char id[32] = "";
  MSCCLPP_CUDATHROW(cudaDeviceGetPCIBusId(id, sizeof id, device));
  std::string path = id;
  for (char& c : path) c = static_cast<char>(std::tolower(c));
  int node = -1;
  std::ifstream("/sys/bus/pci/devices/" + path + "/numa_node") >> node;
  return node;
}
#endif

// numaBind lets the calling thread, and those that it starts, run on the processors of a node only.
inline void numaBind(int node) {
  std::ifstream in("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
  if (!in) throw SysError("NUMA node " + std::to_string(node), ENOENT);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int first = 0; in >> first;) {  // such as 0-3,8-11
    int last = first;
    if (in.peek() == '-') in.get(), in >> last;
    for (int cpu = first; cpu <= last; ++cpu) CPU_SET(static_cast<size_t>(cpu), &set);
    if (in.peek() == ',') in.get();
  }
  if (sched_setaffinity(0, sizeof set, &set)) throw SysError("sched_setaffinity", errno);
}

}  // namespace mscclpp
