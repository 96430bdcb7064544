// Names of kernels that communicate. They begin like those of NCCL, because profilers and trace tools tell
// communication from computation by that.
#pragma once

// GOCCL_ENTRY(name) is the entry point that Go finds by kernels.Entry("name").
#define GOCCL_ENTRY(name) ncclDevKernel_goccl_##name
