// Package sockets holds what every listener and connection of the project needs: options that notice a dead host (Tune), a bound for what strangers
// can cost (Lobby), a bound for what is logged about them (Tally), and the end of all sockets in a forked child (CloseInChild).
//
// Everything may be used by several goroutines.
package sockets
