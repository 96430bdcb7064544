package bootstrap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
)

// origin says in errors which process something came from: its id and the name of its host, u32 and up to 28 bytes. Nothing else relies on it.
type origin [32]byte

// ownOrigin is this process.
var ownOrigin = sync.OnceValue(func() (o origin) {
	binary.LittleEndian.PutUint32(o[:], uint32(os.Getpid()))
	name, _ := os.Hostname()
	copy(o[4:], name)
	return o
})

// String is like "process 71 on node3".
func (o origin) String() string {
	if o == (origin{}) {
		return "an unnamed process"
	}
	return fmt.Sprintf("process %d on %q", binary.LittleEndian.Uint32(o[:]), bytes.TrimRight(o[4:], "\x00"))
}
