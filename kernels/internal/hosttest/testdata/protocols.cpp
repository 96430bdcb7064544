// One program of all protocol tests, because compiling costs more than running: protocols NAME [bug|acquire|release].
#include "proxy.hpp"

#include <cstring>

#include <bench/latency.cu>
#include <examples/memory_channel.cu>
#include <examples/port_channel.cu>
#include <examples/switch_channel.cu>

using namespace ranks;

namespace semaphore {
#include "semaphore.cpp"
}
namespace packet {
#include "packet.cpp"
}
namespace ll128 {
#include "ll128.cpp"
}
namespace fifo {
#include "fifo.cpp"
}
namespace device_syncer {
#include "device_syncer.cpp"
}
namespace tutorial {
#include "tutorial.cpp"
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  for (int i = 2; i < argc; ++i) {
    bug |= std::strcmp(argv[i], "bug") == 0;
    hostWeakAcquire |= std::strcmp(argv[i], "acquire") == 0;
    hostWeakRelease |= std::strcmp(argv[i], "release") == 0;
  }
  const struct {
    const char* name;
    void (*run)();
  } programs[] = {
      {"semaphore", semaphore::run},         {"packet", packet::run},    {"ll128", ll128::run}, {"fifo", fifo::run},
      {"device_syncer", device_syncer::run}, {"tutorial", tutorial::run}};
  for (const auto& p : programs)
    if (std::strcmp(p.name, argv[1]) == 0) {
      p.run();
      return 0;
    }
  return 2;
}
