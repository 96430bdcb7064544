// Package plugin makes a transport.Net of a plugin of NCCL's network interface: EFA through aws-ofi-nccl, HPC-X, UCCL
// and others serve goccl unchanged.
//
// # The flow
//
// Plugins are two-sided: the i-th message of a connection meets the i-th receive. A Peer has two such connections in
// each direction, one for control and one for data.
//
//  1. Put announces each piece of its bytes by a control message, whose receives are posted ahead, and sends the piece
//     on the data connection.
//  2. The peer posts a receive at the piece's place when it reads the announcement. Both sides use the data connection
//     in the order of the announcements.
//  3. When all pieces of a put are received (and flushed, if they are in a GPU) its immediate counts. A put without
//     bytes is an announcement only.
//  4. The peer acknowledges the puts up to which all have arrived; Flush waits for that.
//
// # Failure
//
// An error of the plugin breaks the Peer with ErrPeerGone. Every idle side sends a beat twice a second. A peer that is
// silent for Options.Silence is gone: a plugin cannot tell a slow process from a dead host.
//
// # Lifetime and threads
//
// One goroutine a Peer makes all calls of the plugin for it, under the Peer's lock, and polls: often after activity and
// while somebody waits, else every millisecond. A plugin's library stays loaded.
package plugin
