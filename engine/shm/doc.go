// Package shm runs collectives on the host device: ranks of one machine, in one process or in several, over shared
// memory.
//
// # Flow of a collective
//
//  1. A rank copies a piece of its data to its own arena and publishes it: it increments the counter of the meeting.
//     The last rank wakes all.
//  2. It waits until all ranks have published.
//  3. It reads the data it needs straight from the peers' arenas.
//
// Large messages do not go through arenas. Once every process has mapped the buffers that a request needs
// (buffers.go), ranks read and write them directly (direct.go).
//
// shape.go says what each collective moves; the staged path (staged.go) and the direct path (direct.go, combine.go)
// read it. Messages between pairs and all-to-all-v go through rings (p2p.go). All of them have the same phases
// (phase.go), arenas (layout.go), exit statuses (exit_status.go) and ends (quit.go).
//
// # Why this is native code
//
// The built-in plans do most collectives, too. The table has µs for 8 ranks on two cores of a 2.5 GHz Xeon that did
// other work: this engine beside the fastest built-in plan in the same run, the best of several turns.
//
//	                         one process       8 processes    target
//	all-reduce of 8 B          11.5     21        18     32   12 in one process, 60 in eight
//	              1 KiB          11     21        23     44
//	              64 KiB         34     61        85    125
//	              1 MiB         395    864       868    907
//	              64 MiB      41200  52600     65200  77500   67100
//	all-gather    64 KiB         73    155        44    101
//	              16 MiB      25800  34700      9430   8030
//	all-to-all    64 KiB         42    115        69     92
//	              16 MiB      48200  59000     14900  14500
//	broadcast     64 KiB         34     60        41     84
//	              16 MiB      46700  36300     11600   8670
//
// A plan misses the target of 8 bytes in one process: its ranks signal each other in pairs, where this engine has one
// counter. Up to 64 KiB plans take 1.3 to 3 times as long. For large messages they would do (64 MiB in eight processes
// missed its target under that load, and this engine nearly). But they would replace only the direct path, and each is
// for one collective, one root and one number of ranks: a communicator of n ranks would load 4 + 2n plans, the proof of
// one for 32 ranks takes up to a second, ranks that call different collectives would wait for each other instead of
// finding the mismatch, and gather, scatter and all-to-all-v have none.
//
// The assembly of spread saves a tenth of the processors' time of an all-reduce of 64 MiB out of place (3.0 against
// 3.3 s for 19 of them in one process).
//
// # Memory order and reuse
//
// A rank writes its arena, then increments the meeting's counter with a sequentially consistent atomic; readers load
// the counter the same way before they read an arena. Every rank takes part in every phase and waits for all others in
// it. When a rank has seen phase k+1 from all ranks, all ranks have finished reading the data of phase k, and its slot
// is free for phase k+2. Two alternating slots therefore need no other handshake.
//
// # Lifetime and threads
//
// An Engine runs one request at a time, in the order of Enqueue, even across streams. Any goroutine may run them. Any
// goroutine may call Abort: it sets the arena's abort word and wakes the door, so a waiting rank leaves within
// microseconds. A rank that leaves because of an error, an abort or Close records that in its arena, and the peers
// that wait for it fail.
package shm
