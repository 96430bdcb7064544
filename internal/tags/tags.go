// Package tags names the tags of bootstrap messages, and the spaces of sub-groups, that goccl itself uses: two owners
// with one number would take each other's messages. Each has one owner, which states the format of its messages.
//
// # Lifetime and threads
//
// The package holds only constants.
package tags

// Tags in the group of a communicator, which no one else uses.
const (
	CheckSend = 0 // goccl, checker: signatures of senders
	CheckRecv = 1 // goccl, checker: signatures of receivers
	Notice    = 2 // goccl, notices: this rank has aborted or closed
	Window    = 4 // engine/nvlink: the user's windows (share.Windows)
	Agreement = 5 // goccl, Shrink: job/agreement
	Links     = 6 // engine/hosts/links: the two halves of a connection
	Flat      = 7 // goccl, Comm.RegisterFlat: share.Windows
	Buffers   = 8 // engine/nvlink: buffers that peers read in place (share.Buffers)
	Pieces    = 3 // engine/nvlink: memory that is made at its first use (share.Pieces)
	Verdict   = 9 // goccl, watchdog: records that ranks compare

	PlanLinks = 12 // plan/executor: as Links, for plans

	CheckSent     = 13 // goccl, dataCheck: checksums of what was sent
	CheckReceived = 14 // goccl, dataCheck: checksums of what came
)

// MostOfUser is the largest tag of a user of primitive.Communicator.
const MostOfUser = 1<<20 - 1

// Primitive is a tag of package primitive, in a group that the caller uses too: kind separates its messages from each
// other, and a high bit from the caller's own. tag is from 0 to MostOfUser.
func Primitive(kind uint8, tag int) int { return 1<<30 | int(kind)<<24 | tag }

// Spaces of Bootstrap.Sub. Callers' own are small numbers from 0 on.
const (
	SpaceOfHost          = -1            // bootstrap, SplitByHost
	SpaceOfRank          = -2            // hosts, the engine of one rank
	SpaceOfExperts       = -3            // engine/moe, SetMask
	SpaceOfCommunicators = -0x676f63636c // goccl, NewComm
	SpaceOfExecutors     = 1 << 20       // capi, an executor each, from here to twice that
	SpaceUsedOnce        = 1 << 62       // bootstrap, OnceSpace: this bit and a hash
)
