package bootstrap

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// meeting is what a rank needs to find the root and to authenticate.
type meeting struct {
	secret  []byte
	targets []target
	iface   string        // filter for the local interface; "" = from the environment or the route
	address *rootAddress  // rank 0 serves the root there
	gone    time.Duration // how long refusals show that the root, which was up, is gone; 0: it may not be up yet
	maker   origin        // the process that made the id and serves the root
	attempt attempt       // for the address form
	weak    bool          // others can derive the secret
}

// noRoot returns the error of a rank that was not admitted, with the rank to blame.
func (m *meeting) noRoot(rank int, err error) error {
	missing := errors.Is(err, ErrTimeout) || errors.Is(err, ErrPeerDead)
	if missing && m.loopback() {
		err = fmt.Errorf("%w; %s", err, onlyHere)
	}
	switch {
	case missing && m.address != nil && rank != 0:
		return &blame{0, fmt.Errorf("no way to rank 0, which listens at %v: it has not come, has died, or has failed, "+
			"which its own error explains: %w", m.address, err)}
	case missing && m.maker != (origin{}):
		return fmt.Errorf("no way to the root, which is in the process that made the UniqueID, %v: %w", m.maker, err)
	}
	return fmt.Errorf("no way to the root: %w", err)
}

// onlyHere explains an address that no other host can use.
const onlyHere = "ranks meet at the loopback address, which leads to no other host: for several hosts choose an " +
	"interface (NCCL_SOCKET_IFNAME) where the UniqueID is made, or a MASTER_ADDR or NCCL_COMM_ID that others reach"

// loopback reports whether ranks meet at the loopback address.
func (m *meeting) loopback() bool {
	for _, t := range m.targets {
		at, err := netip.ParseAddrPort(t.address)
		if err != nil || !at.Addr().IsLoopback() {
			return false
		}
	}
	return len(m.targets) > 0
}

// usedIDs are the latest ids by which ranks of this process have joined. An id is for one job: its root has ended.
type usedIDs struct {
	mu   sync.Mutex
	keys [64][sha256.Size]byte
	next int
}

func usedKey(f *idFields, rank int) [sha256.Size]byte {
	return [sha256.Size]byte(seal(f.secret[:], "used", binary.LittleEndian.AppendUint32(nil, uint32(rank))))
}

func (u *usedIDs) add(f *idFields, rank int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keys[u.next] = usedKey(f, rank)
	u.next = (u.next + 1) % len(u.keys)
}

func (u *usedIDs) has(f *idFields, rank int) bool {
	key := usedKey(f, rank)
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Contains(u.keys[:], key)
}

// warnWeak warns once per process that the ranks' secret can be derived by others.
func (p *processState) warnWeak(log *slog.Logger) {
	p.weak.Do(func() {
		log.Warn("bootstrap: ranks join by address without GOCCL_SECRET: any process that can reach the address can join " +
			"the job or impersonate a rank; " +
			"set GOCCL_SECRET to the same random text on all ranks")
	})
}
