package bootstrap

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/openfiles"
)

// Two ranks are on one host if they have met on an abstract unix socket: then they can exchange descriptors and so map
// each other's memory. This requires one kernel, one network namespace and one user. Host names, and mount, IPC and PID
// namespaces, do not matter, so containers of one pod are one host. The ranks test this by connecting, unless a host id
// is configured:

// hostID returns the identity that GOCCL_HOSTID or NCCL_HOSTID gives, else the place. Only ranks with the
// same one try unix sockets.
func hostID(override string) ([32]byte, error) {
	if override != "" {
		return sha256.Sum256([]byte("goccl host " + override)), nil
	}
	return place()
}

// processID is a random identifier of this process.
var processID = sync.OnceValue(func() []byte {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return id
})

// wayOut is the advice for ranks of one machine that are not on one host.
const wayOut = "no unix socket leads from one to the other, so they cannot share memory; containers of one machine " +
	"can if they have the network namespace in common " +
	"(docker run --network=host or --network=container:NAME, or one pod) and the same user, and GOCCL_HOSTID and " +
	"NCCL_HOSTID are unset or equal"

// OtherHost returns the first rank that is on another host than b's, and an error with the reason and the remedy. It
// returns -1 and nil if there is none.
func OtherHost(b Bootstrap) (rank int, err error) {
	hosts := b.Hosts()
	for r, h := range hosts {
		if h != hosts[b.Rank()] {
			// without the rank, because callers have their own numbering
			return r, errors.New("the peer is on another host: " + wayOut)
		}
	}
	return -1, nil
}

// errNotHere means that a peer cannot be reached by a unix socket.
var errNotHere = errors.New("no unix socket leads there")

// dialHere opens a connection to a peer of this host. If the name has no listener, the result is errNotHere: a rank
// listens before it publishes its name.
func (d *dialer) dialHere(ctx context.Context, name socketName, me greeting) (*frameConn, greeting, error) {
	t := target{"unix", name.address(), false}
	var shortage openfiles.Shortage
	for {
		fc, them, err := d.try(ctx, t, me)
		switch {
		case err == nil:
			return fc, them, nil
		case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errOtherUser):
			return nil, them, fmt.Errorf("%w: %w", errNotHere, err)
		case !errors.As(err, new(errRetry)) || shortage.Lasts(err):
			return nil, them, fmt.Errorf("%s: %w", t.address, err)
		}
		if late := pause(ctx, 10*time.Millisecond); late != nil {
			return nil, them, fmt.Errorf("%w; last attempt: %s: %w", late, t.address, err)
		}
	}
}

// isHere reports whether a connection proves that its peer is on this host.
func isHere(fc *frameConn) bool {
	_, ok := fc.c.(*net.UnixConn)
	return ok
}

// place identifies from where a rank may be reached by unix sockets: the kernel's boot, the namespaces of network and
// users, and the user. The namespaces are the calling thread's, because its sockets belong to them. All processes that
// may not read that have the same place; there the ranks find out by trying. A process without a free descriptor has
// none: that is an error, since it may well be on a peer's host.
func place() ([32]byte, error) {
	h := sha256.New()
	h.Write([]byte("goccl place "))
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if openfiles.Exhausted(err) {
		return [32]byte{}, openfiles.Explain(err)
	}
	h.Write(boot)
	for _, name := range []string{"/proc/thread-self/ns/net", "/proc/thread-self/ns/user"} {
		var st unix.Stat_t
		if err == nil {
			err = unix.Stat(name, &st)
		}
		h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, st.Dev), st.Ino))
	}
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(os.Geteuid())))
	if err != nil {
		return sha256.Sum256([]byte("goccl place unknown")), nil
	}
	return [32]byte(h.Sum(nil)), nil
}
