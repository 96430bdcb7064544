// Package topo describes a machine: its GPUs, how they reach each other, its NICs, CPUs and NUMA nodes.
//
// A Machine is a plain value with a JSON form, so machines can be recorded, compared and used in tests (testdata holds
// some). Detect describes this host from NVML, the CUDA driver and /sys. It makes no CUDA context, needs no privileges,
// and works without a GPU. A Machine has no lifetime and never changes after it is made, so it can be shared freely.
package topo
