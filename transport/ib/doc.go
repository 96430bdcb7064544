// Package ib is a placeholder for the InfiniBand transport.
//
// Planned contents: a transport.Link over a reliable-connected queue pair per connection (libibverbs opened with
// dlopen, as the CUDA driver is), memory regions registered by address or by DMA-BUF for GPU memory, signals as RDMA
// atomics, or as writes with immediate if the adapter has no atomics, and the choice of the adapter nearest to the GPU.
// Endpoints of IB0…IB7 name the adapter.
//
// Until then Open returns ErrNotBuiltIn and holds no resources.
package ib
