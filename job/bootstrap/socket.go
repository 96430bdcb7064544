package bootstrap

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/netif"
	"github.com/goccl/goccl/internal/peercred"
	"github.com/goccl/goccl/internal/sockets"
)

// bindFrom makes a dialer leave through one of nics, by the route if it leads there. It does not apply to loopback
// destinations, because the root's name may refer to this host, nor to destinations of a family that nics do not have.
func bindFrom(nics []netif.NIC) func(network, address string, c syscall.RawConn) error {
	return func(_, address string, c syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil
		}
		from := netif.Toward(nics, to.Addr())
		if !from.IsValid() || to.Addr().Unmap().IsLoopback() != from.IsLoopback() {
			return nil
		}
		var sa unix.Sockaddr = &unix.SockaddrInet6{Addr: from.As16()}
		if from.Is4() {
			sa = &unix.SockaddrInet4{Addr: from.As4()}
		}
		var bindErr error
		err = c.Control(func(fd uintptr) {
			// The kernel chooses the port on connecting, so that many connections can share one.
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
			bindErr = unix.Bind(int(fd), sa)
		})
		if err == nil && bindErr != nil {
			err = fmt.Errorf("leave from %v: %w", from, bindErr)
		}
		return err
	}
}

// checkPeer rejects the process of another user on a unix socket. Other connections pass.
func checkPeer(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	uid, err := peercred.UID(u)
	if err != nil {
		return err
	}
	if uid != os.Geteuid() {
		return fmt.Errorf("%w: user %d, this is user %d", errOtherUser, uid, os.Geteuid())
	}
	return nil
}

var errOtherUser = fmt.Errorf("%w: the process at the other end belongs to another user", ErrAuth)

// socketName is the random part of an abstract unix address.
type socketName [16]byte

func (n socketName) address() string { return "@goccl-" + hex.EncodeToString(n[:]) }

func listenUnix() (net.Listener, socketName, error) {
	var n socketName
	_, _ = rand.Read(n[:]) // never fails
	l, err := sockets.Listen("unix", n.address())
	return l, n, err
}
