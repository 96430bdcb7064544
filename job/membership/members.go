package membership

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/proc"
)

// Process is where a rank runs: its process, device and host.
type Process struct {
	PID    int
	Born   uint64 // start time of the process, which tells it from a later one of the same number
	Device int
	space  uint64 // namespace of process numbers: a number in a container means nothing outside
	Host   string
}

// Members is where all ranks run.
type Members struct {
	ID    uint64 // of the communicator
	Ranks []Process
}

// Name is the communicator's name in records.
func (m *Members) Name() string { return fmt.Sprintf("%016x", m.ID) }

// ProcessBytes is the size of an encoded Process: pid u32, born u64, device i32, space u64, host.
const ProcessBytes = 24 + 48

// Here returns this rank's own, on a device.
func Here(device int) Process {
	name, _ := os.Hostname()
	own, _ := proc.Read("/proc", os.Getpid()) // without a state, nobody tells this process from a later one
	return Process{os.Getpid(), own.Born, device, processSpace(), name}
}

// processSpace identifies the namespace of this process's number; 0: it is not known.
func processSpace() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// Bytes encodes o.
func (o Process) Bytes() []byte {
	b := make([]byte, ProcessBytes)
	binary.LittleEndian.PutUint32(b, uint32(o.PID))
	binary.LittleEndian.PutUint64(b[4:], o.Born)
	binary.LittleEndian.PutUint32(b[12:], uint32(o.Device))
	binary.LittleEndian.PutUint64(b[16:], o.space)
	copy(b[24:], o.Host)
	return b
}

// ParseProcess decodes what Bytes has made.
func ParseProcess(b []byte) Process {
	return Process{int(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint64(b[4:]),
		int(int32(binary.LittleEndian.Uint32(b[12:]))), binary.LittleEndian.Uint64(b[16:]),
		string(bytes.TrimRight(b[24:], "\x00"))}
}

// State is the state of the rank's process in /proc, as seen from this host; Z if it has ended, "" if it is not known.
func (o Process) State() string {
	if o.space != processSpace() {
		return ""
	}
	stat, err := proc.Read("/proc", o.PID)
	if err != nil || stat.Born != o.Born && o.Born != 0 {
		if _, err := os.Stat("/proc/self/stat"); err != nil || o.PID == 0 {
			return ""
		}
		return "Z"
	}
	return string(stat.State)
}

// Agreed stores who the members are, once the ranks have agreed.
func (g *Group) Agreed(m *Members) { g.members.Store(m) }

// Members returns who the members are, nil if the ranks have not agreed yet.
func (g *Group) Members() *Members { return g.members.Load() }

// InJob returns the numbers in the job of some ranks of a communicator, whose ranks have the numbers job there (nil:
// the same ones). It returns nil if the numbers do not differ.
func InJob(job, ranks []int) []int {
	out, same := make([]int, len(ranks)), true
	for i, r := range ranks {
		if out[i] = r; r < len(job) {
			out[i] = job[r]
		}
		same = same && out[i] == i
	}
	if same {
		return nil
	}
	return out
}
