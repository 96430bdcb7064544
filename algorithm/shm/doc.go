// Package shm runs collectives on the host device: ranks of one machine, in one process or in several, over shared
// memory.
//
// # Flow of a collective
//
//  1. A rank copies a piece of its data to its own window and publishes it: it increments the counter of the meeting.
//     The last rank wakes all.
//  2. It waits until all ranks have published.
//  3. It reads the data it needs straight from the peers' windows.
//
// Large messages do not go through windows. Once every process has mapped the buffers that a request needs
// (buffers.go), ranks read and write them directly (direct.go).
//
// # Memory order and reuse
//
// A rank writes its window, then increments the meeting's counter with a sequentially consistent atomic; readers load
// the counter the same way before they read a window. Every rank takes part in every phase and waits for all others in
// it. When a rank has seen phase k+1 from all ranks, all ranks have finished reading the data of phase k, and its slot
// is free for phase k+2. Two alternating slots therefore need no other handshake.
//
// # Lifetime and threads
//
// An Engine runs one request at a time, in the order of Enqueue, even across streams. Any goroutine may run them. Any
// goroutine may call Abort: it sets the window's abort word and wakes the door, so a waiting rank leaves within
// microseconds. A rank that leaves because of an error, an abort or Close records that in its window, and the peers
// that wait for it fail.
package shm
