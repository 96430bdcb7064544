// Package algorithm is what collectives have in common on every device: the request, the interface of what runs it, and the interface by which a user's
// own algorithm joins the choice.
//
//	Request      one collective call of one rank, as a value; Validate checks it
//	Engine       runs requests: algorithm/nvlink on GPUs, algorithm/shm on the host device
//	Algorithm    a user's own, made by a Builder, chosen by a Collection before the engine is asked (executor's plans are such)
//	Info         what an algorithm is, for Comm.Catalog
//	ParseForced  GOCCL_ALGO's form
//
// # Lifetime and threads
//
// An Engine and the algorithms of a Collection belong to one communicator. Enqueue and Run are called by one goroutine at a time, with the same
// requests in the same order on every rank; Abort, Err and Close may be called from any. A Request is read during the call only, its counts too, but the
// memory it names is used until its stream has got past it. Errors arrive as *Error, with the rank, the operation, its sequence number, and the peer that
// is to blame.
package algorithm
