// Entry points of onesided.cuh.
//
//   put_signal   one block, or one cluster of blocks from compute capability 9.0 on
//   wait_signal  one block, with at least one thread per counter
#include <onesided/onesided.cuh>

using namespace goccl;
using namespace goccl::onesided;

GOCCL_KERNEL(put_signal, 1024, 1, PutArgs) { put(a); }
GOCCL_KERNEL(wait_signal, 64, 1, WaitArgs) { await(a); }
