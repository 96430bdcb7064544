// Package sockets provides what every listener and connection of the project needs: options that detect a dead host
// (Tune), a bound for unauthenticated connections (Lobby), a bound for log messages about them (Tally), and the closing
// of sockets in a forked child (CloseInChild).
//
// Everything may be used by several goroutines.
package sockets
