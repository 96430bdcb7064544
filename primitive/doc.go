// Package primitive provides one-sided communication for kernels and hosts: Endpoint, Connection, RegisteredMemory,
// Semaphore, the channels (BaseMemoryChannel, MemoryChannel, PortChannel, SwitchChannel), the ProxyService that
// executes the requests of kernels, and the Communicator that sets up all of these between ranks.
//
// # How the pieces fit
//
//	Context ── CreateEndpoint ──► Endpoint ─┐ exchange ┌─ Endpoint ◄── Context        of the peer
//	   │                                    ▼          ▼
//	   └── Connect(local, remote) ──────► Connection                                  host-initiated write, add, flush
//	                                        │
//	             SemaphoreStub(conn) ── exchange ── SemaphoreStub of the peer
//	                                        ▼
//	                                     Semaphore                  a pair of counters, one inbound at each side
//	                                        │
//	       BaseMemoryChannel · MemoryChannel · PortChannel · SwitchChannel ── DeviceHandle ──► kernels (Go twins or CUDA)
//
// Endpoint, RegisteredMemory and SemaphoreStub are exchanged as bytes. The formats have a version, a length check and a
// checksum. A decoder never trusts a length, and a region named by a peer is checked against the registered ones.
//
// # Lifetime and threads
//
// A Context owns the objects made from it. Close ends them all: it closes links, unmaps imported mappings, revokes
// descriptors and joins goroutines. Close the Context before the devices it uses, because its counters and FIFOs lie in
// their memory. The caller closes a registration of memory only after the channels over it. All types are safe for
// several goroutines. A device handle is plain data. It stays valid until its Context is closed, and no kernel that
// holds it may run after that.
//
// # Waiting
//
// No wait is for ever. Host calls take a context.Context or the timeout of their Context (30 s, WithTimeout,
// GOCCL_TIMEOUT). Waits in kernels poll the Context's AbortBlock and give up after its spin limit; they return a Status
// and never trap. Context.Abort ends every wait on host and device with a typed error. Context.Recover makes the
// Context usable again once no kernel runs.
//
// # Memory order
//
// Signal is a release at system scope and Wait an acquire: the signaller's earlier writes are visible after the wait.
// The Relaxed forms do not order other accesses. A Connection performs its operations in the order of the calls; a
// signal never becomes visible before the earlier writes on the same Connection. Between GPUs of a host, a kernel
// stores small puts and signals of a PortChannel itself, unless the service has requests over the Connection that no
// flush has covered. They are in order with these requests, and not with calls of the host on the Connection: Flush
// before the kernel.
package primitive
