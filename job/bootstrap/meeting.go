package bootstrap

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
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
	return len(m.targets) > 0 && !slices.ContainsFunc(m.targets, func(t target) bool {
		at, err := netip.ParseAddrPort(t.address)
		return err != nil || !at.Addr().IsLoopback()
	})
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

// attempt identifies one attempt of a job, because several may meet at one address: the hash of the launcher's run (12
// bytes) and the number of the attempt (u32). A process that outlives its attempt must not join the next one.
type attempt [16]byte

// currentAttempt reads the launcher's variables. torchrun counts restarts on each host separately, so the number is
// used only if all ranks are on one host.
func currentAttempt(v environment) (a attempt, err error) {
	run := firstOf(v, "TORCHELASTIC_RUN_ID", "GOCCL_RUN_ID")
	if run == "" {
		return a, nil
	}
	sum := sha256.Sum256([]byte("goccl run " + run))
	copy(a[:12], sum[:])
	if v.get("TORCHELASTIC_RESTART_COUNT") == "" || v.get("WORLD_SIZE") == "" ||
		v.get("LOCAL_WORLD_SIZE") != v.get("WORLD_SIZE") {
		return a, nil
	}
	n, err := number(v, "TORCHELASTIC_RESTART_COUNT")
	if err != nil {
		return a, err
	}
	binary.LittleEndian.PutUint32(a[12:], uint32(n))
	return a, nil
}

func (a attempt) number() uint32 { return binary.LittleEndian.Uint32(a[12:]) }

// meets returns the error of a rank of this attempt that meets the root of another one. It retries while an older root
// is there, because that root is about to end.
func (a attempt) meets(root attempt) error {
	switch {
	case !bytes.Equal(a[:12], root[:12]):
		return fmt.Errorf("%w: the root there is of another run of the launcher; give each run its own MASTER_PORT",
			ErrAttempt)
	case root.number() > a.number():
		return fmt.Errorf("%w: this process is of attempt %d, and attempt %d joins there; its launcher should have ended it",
			ErrAttempt, a.number(), root.number())
	}
	return errRetry{fmt.Errorf("%w: the root there is still of attempt %d, this process of attempt %d", ErrAttempt,
		root.number(), a.number())}
}

// origin identifies a process in errors: its id and the name of its host, u32 and up to 28 bytes. It is not used for
// anything else.
type origin [32]byte

// ownOrigin returns the origin of this process.
var ownOrigin = sync.OnceValue(func() (o origin) {
	binary.LittleEndian.PutUint32(o[:], uint32(os.Getpid()))
	copy(o[4:], hostname())
	return o
})

// String formats o, for example "process 71 on node3".
func (o origin) String() string {
	if o == (origin{}) {
		return "an unnamed process"
	}
	return fmt.Sprintf("process %d on %q", binary.LittleEndian.Uint32(o[:]), bytes.TrimRight(o[4:], "\x00"))
}
