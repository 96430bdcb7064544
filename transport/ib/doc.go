// Package ib is transport.Net over RDMA adapters: InfiniBand and RoCE, by libibverbs.
//
// # How a put travels
//
//  1. Put checks the bounds and appends work requests to the Peer's queue: a write with immediate, after plain writes
//     if the message is longer than the adapter takes.
//  2. The queue posts requests until the adapter's send queue is full. The rest waits in memory, bounded by
//     QueueLimit; beyond it Put fails with transport.ErrQueueFull. Put never blocks.
//  3. The adapter writes into the peer's memory. At the last write it takes one receive of the peer, whose completion
//     carries the immediate.
//  4. The peer's goroutine polls the completion, posts a new receive, and counts the arrival. If memory of a GPU is
//     registered it first reads one byte of it through the adapter: the read pushes earlier writes into the memory.
//  5. The adapter's acknowledgement completes the work request here: the source may be reused, and step 2 goes on.
//
// A Peer has one reliable connection (a queue pair), one completion queue and one goroutine, which polls for a bounded
// time after the last completion and then sleeps until the adapter wakes it. A connection delivers in order, which
// users must not rely on.
//
// # Failure
//
// A completion with an error breaks the Peer: see errors.go for its names. A connection that is silent is probed with
// empty writes (keepalive.go), so that the death of a peer is noticed within the time of the retries, also by a Peer
// that only receives.
//
// # Lifetime and threads
//
// A Net holds no resources. A Port holds the opened adapter; its Close closes the Peers and Regions. All methods may be
// called from any goroutine.
package ib
