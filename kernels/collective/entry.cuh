// Names of kernels that communicate. They share the prefix of NCCL's kernels, by which profilers and trace tools tell
// communication from computation.
#pragma once

// GOCCL_ENTRY(name) is the entry point that Go finds by kernels.Entry("name").
#define GOCCL_ENTRY(name) ncclDevKernel_goccl_##name
