// Package ncclnet calls plugins of NCCL's network interface (ncclNet), versions 6 to 12: libraries that move messages
// over one kind of network, such as libnccl-net.so of aws-ofi-nccl.
//
// # Lifetime and threads
//
// A library is never unloaded. Plugins allow one thread at a time to use an object; the caller sees to that.
package ncclnet
