package sockets

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// Explain adds to an error that means that this host has no free port what can be done, once. It returns other errors
// unchanged.
func Explain(err error) error {
	var op *net.OpError
	var done *noPort
	if errors.As(err, &done) || !errors.As(err, &op) {
		return err
	}
	at, ok := op.Addr.(*net.TCPAddr)
	taken := errors.Is(err, unix.EADDRINUSE)
	if op.Op == "listen" && ok && at.Port == 0 && taken ||
		op.Op == "dial" && (taken || errors.Is(err, unix.EADDRNOTAVAIL)) {
		return &noPort{err}
	}
	return err
}

type noPort struct{ err error }

func (e *noPort) Error() string {
	return e.err.Error() + ": no port of this host is free there: end processes with many connections, or widen " +
		"net.ipv4.ip_local_port_range (sysctl)"
}

func (e *noPort) Unwrap() error { return e.err }
