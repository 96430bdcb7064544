// Package collective holds what collectives have in common on every device: the request, the interface of the engine
// that runs it, and the interface for a user's own algorithms.
//
//	Request      one collective call of one rank, as a value; Validate checks it
//	Engine       runs requests: engine/nvlink on GPUs, engine/shm on the host device
//	Algorithm    a user's own algorithm, made by a Builder; a Collection tries it before the engine
//	Info         the description of an algorithm, for Comm.Catalog
//	ParseForced  parses GOCCL_ALGO
//
// # Lifetime and threads
//
// An Engine and the algorithms of a Collection belong to one communicator. Enqueue and Run are called by one goroutine
// at a time, with the same requests in the same order on every rank. Any goroutine may call Abort, Err and Close. A
// Request, including its counts, is read during the call only; the memory that it names is in use until the operation
// ends on its stream. Errors arrive as *Error, with the rank, the operation, its sequence number and the peer at fault.
package collective
