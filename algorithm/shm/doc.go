// Package shm runs collectives on the host device: ranks of one machine, in one process or in several, over shared memory.
//
// # Flow of a collective
//
//  1. A rank puts a piece of its data in its own window and publishes: it counts itself in at the meeting. The last one wakes all.
//  2. It waits until everybody has.
//  3. It reads what it needs straight from the others' windows.
//
// Large messages do not go through windows: once every process has mapped the buffers that a request needs (buffers.go), ranks read and write
// them where they are (direct.go).
//
// # Memory order and reuse
//
// The meeting's counter is raised with a sequentially consistent atomic after the window is written, and read with one before a window is
// read. Every rank takes part in every phase and waits for all others in it. So when a rank has seen phase k+1 from everybody, everybody
// has finished reading what was published in phase k, and its slot is free for phase k+2: two slots, used in turn, need no other handshake.
//
// # Lifetime and threads
//
// An Engine runs one request at a time, in the order of Enqueue, also when they are on different streams; which goroutine runs them does
// not matter. Abort may come from any goroutine: it sets the window's abort word and wakes the door, so a waiting rank leaves within
// microseconds. A rank that leaves, because of an error, an abort or Close, says so in its window, and peers that wait for it fail with it.
package shm
