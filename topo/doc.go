// Package topo describes a machine: its GPUs, how they reach each other, its NICs, CPUs and NUMA nodes.
//
// A Machine is a plain value with a JSON form, so that machines can be recorded, compared, and used in tests of what depends on them
// (testdata holds some). Detect makes the Machine of this host from NVML, the CUDA driver and /sys; it makes no CUDA context, needs no
// privileges, and works without a GPU. A Machine has no lifetime and is not changed after it was made: share it freely.
package topo
