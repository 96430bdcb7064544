// Package primitive is the vocabulary that kernels and hosts use to move bytes one-sidedly: Endpoint, Connection, RegisteredMemory,
// Semaphore, the channels (BaseMemoryChannel, MemoryChannel, PortChannel, SwitchChannel), the ProxyService that carries out what a kernel
// asks for, and the Communicator that sets all of it up between ranks.
//
// # How the pieces fit
//
//	Context ── CreateEndpoint ──► Endpoint ─┐ exchange ┌─ Endpoint ◄── Context        of the peer
//	   │                                    ▼          ▼
//	   └── Connect(local, remote) ──────► Connection                                  host-initiated write, add, flush
//	                                        │
//	             SemaphoreStub(conn) ── exchange ── SemaphoreStub of the peer
//	                                        ▼
//	                                     Semaphore                                    a pair of counters, one inbound at each side
//	                                        │
//	       BaseMemoryChannel · MemoryChannel · PortChannel · SwitchChannel ── DeviceHandle ──► kernels (Go twins or CUDA)
//
// Endpoint, RegisteredMemory and SemaphoreStub are exchanged as bytes. The formats are versioned, length-checked and carry a checksum; a
// decoder never trusts a length, and a region named by a peer is checked against what was registered.
//
// # Lifetime and threads
//
// A Context owns what is made from it. Close ends it all: links are closed, imported mappings unmapped, descriptors revoked, goroutines
// joined. Close the Context before the devices it uses: its counters and FIFOs lie in their memory. Whoever registers memory closes it no sooner than the channels over it. All types are safe for several goroutines. A device
// handle is plain data; it stays valid until its Context is closed, and no kernel that holds it may run then.
//
// # Waiting
//
// No wait is for ever. Host calls take a context.Context or the timeout of their Context (30 s, WithTimeout, GOCCL_TIMEOUT). Waits in kernels
// poll the Context's AbortBlock and give up after its spin limit; they return a Status, they never trap. Context.Abort ends every wait on
// host and device with a typed error; Context.Recover makes the Context usable again once no kernel runs.
//
// # Memory order
//
// Signal is a release at system scope and Wait an acquire: what the signaller wrote before is visible after the wait. The Relaxed forms
// order nothing but themselves. A Connection performs its operations in the order of the calls; a signal is never seen before the writes that
// precede it on the same Connection.
package primitive
