// Entry points of onesided.cuh.
//
//   put_signal   one block
//   wait_signal  one block of at least as many threads as counters
#include <onesided/onesided.cuh>

using namespace goccl;
using namespace goccl::onesided;

GOCCL_KERNEL(put_signal, 512, 1, PutArgs) { put(a); }
GOCCL_KERNEL(wait_signal, 64, 1, WaitArgs) { await(a); }
