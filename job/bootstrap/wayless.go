package bootstrap

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/goccl/goccl/internal/netif"
	"github.com/goccl/goccl/internal/sockets"
)

// wayless judges the errors of attempts for which this host has no route.
type wayless struct {
	families []string // without an address on this host, by target
	warned   bool
}

// judge returns an error if this host has no address of the family of any of so many targets: then no attempt can
// succeed. It warns once of a missing route, which may come.
func (w *wayless) judge(err error, targets int, log *slog.Logger) error {
	var op *net.OpError
	if !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EADDRNOTAVAIL) &&
		!errors.Is(err, syscall.EAFNOSUPPORT) || !errors.As(err, &op) {
		w.families = nil
		return nil
	}
	at, ok := op.Addr.(*net.TCPAddr)
	if !ok {
		return nil
	}
	to := at.AddrPort().Addr().Unmap()
	if netif.Reaches(to) || to.IsLoopback() {
		w.families = nil
		if !w.warned && log != nil {
			w.warned = true
			log.Warn("bootstrap: no connection with another rank's address; trying again", "to", to, "error",
				sockets.Explain(err), "interfaces", netif.List())
		}
		return nil
	}
	if w.families = append(w.families, to.String()); len(w.families) < targets {
		return nil
	}
	return fmt.Errorf("%w: no way to %s: %w", ErrInvalid, strings.Join(w.families, ", "), familyMissing(to, err))
}

func familyMissing(to netip.Addr, err error) error {
	family, other := "IPv4", "AF_INET6"
	if to.Is6() {
		family, other = "IPv6", "AF_INET"
	}
	return fmt.Errorf("this host has no %s address besides the loopback, up are %s; give it one, or set "+
		"NCCL_SOCKET_FAMILY=%s on all ranks if all hosts have that: %w", family, netif.List(), other, err)
}
