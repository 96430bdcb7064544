// Package doctor looks for problems that keep goccl from working, or from working well, on this host: the driver, the
// GPUs, their links and their health, what a container and the firmware allow, sharing of memory between processes,
// limits of the process, the network, and environment variables. Every finding that is not ok includes a fix.
//
// Check is a function of its Source: with the same facts it returns the same findings in the same order, so the tests
// need no GPU. Host is the Source of the real host. Check opens GPU 0 when there is one (a CUDA context, 2 MiB of
// memory) and frees everything. With several GPUs it starts a process that measures the link of each pair (package
// links). It changes nothing on the host and ends with its context. It may be called from any
// goroutine.
package doctor
