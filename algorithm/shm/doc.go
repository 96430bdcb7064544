// Package shm runs collectives on the host device: ranks of one machine, in one process or in several, over shared memory.
//
// # Flow of a collective
//
//  1. A rank puts a piece of its data in its own window and publishes: it raises its phase counter and wakes whoever sleeps at the doors.
//  2. It waits until every rank's phase counter has got there.
//  3. It reads what it needs straight from the others' windows.
//
// Bytes only ever move from a window or from a peer's buffer into memory of the reader: a rank never writes into another's window.
//
// # Memory order and reuse
//
// The phase counter is raised with a sequentially consistent atomic after the window is written, and read with one before the window is
// read. Every rank takes part in every phase and waits for all others in it. So when a rank has seen phase k+1 from everybody, everybody
// has finished reading what was published in phase k, and its slot is free for phase k+2: two slots, used in turn, need no other handshake.
//
// # Lifetime and threads
//
// An Engine runs one request at a time, in the order of Enqueue, also when they are on different streams; which goroutine runs them does
// not matter. Abort may come from any goroutine: it sets the window's abort word and wakes the door, so a waiting rank leaves within
// microseconds. A rank that leaves, because of an error, an abort or Close, says so in its window, and peers that wait for it fail with it.
package shm
