package bootstrap

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
)

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
