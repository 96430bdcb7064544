package bootstrap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
)

// origin identifies a process in errors: its id and the name of its host, u32 and up to 28 bytes. It is not used for
// anything else.
type origin [32]byte

// ownOrigin returns the origin of this process.
var ownOrigin = sync.OnceValue(func() (o origin) {
	binary.LittleEndian.PutUint32(o[:], uint32(os.Getpid()))
	name, _ := os.Hostname()
	copy(o[4:], name)
	return o
})

// String formats o, for example "process 71 on node3".
func (o origin) String() string {
	if o == (origin{}) {
		return "an unnamed process"
	}
	return fmt.Sprintf("process %d on %q", binary.LittleEndian.Uint32(o[:]), bytes.TrimRight(o[4:], "\x00"))
}
