package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"github.com/goccl/goccl/internal/printable"
)

// ErrFormat means that a file is not one of records, or is damaged.
var ErrFormat = errors.New("record: not a file of records")

// Bounds of input: bytes through a socket; of a file the operations in all, the communicators, and their ranks.
const (
	mostFile       = 1 << 28
	mostOperations = 1 << 18
	mostOpen       = 1 << 12
	mostRanks      = 1 << 16
)

// Here is the records of this process.
func Here() *Process {
	p := thisProcess()
	for _, x := range Recorders() {
		if c := x.Snapshot(0); c != nil {
			p.Communicators = append(p.Communicators, c)
		}
	}
	return p
}

// ReadFile reads the file of a process: one of a folder (GOCCL_RECORD_DIR), or /proc/PID/fd/N of a process that runs,
// is stopped or hangs.
func ReadFile(path string) (*Process, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is a %v", ErrFormat, path, info.Mode().Type())
	}
	p, err := decode(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p.Time = max(p.Time, info.ModTime().UnixNano())
	return p, nil
}

// decode reads a file, of which nothing is trusted: its owner may be another user. It holds one region at a time, and
// of a file with many regions only the latest operations of each.
func decode(f io.ReaderAt) (*Process, error) {
	head := make([]byte, headerBytes)
	if n, _ := f.ReadAt(head, 0); n < len(head) || binary.NativeEndian.Uint64(head) != fileMagic {
		return nil, ErrFormat
	}
	h := (*header)(unsafe.Pointer(&head[0]))
	n := h.entries
	size, regions := int64(h.size), int64(h.regions.Load())
	if h.version != fileVersion || n == 0 || n > mostEntries || n&(n-1) != 0 || regions > mostRegions ||
		size < regionBytes(int(n)) || size > 2*regionBytes(int(n))+headerBytes || size%8 != 0 {
		return nil, fmt.Errorf("%w: version %d with rings of %d", ErrFormat, h.version, n)
	}
	p := &Process{Version: fileVersion, Time: h.clock.unix1.Load(), PID: int(h.pid), Communicators: []*Communicator{},
		Host: printable.Line(string(get(h.host[:]))), Program: printable.Line(string(get(h.program[:])))}
	mem, left := make([]byte, size), mostOperations
	for i := range regions {
		if k, _ := f.ReadAt(mem, headerBytes+i*size); k < len(mem) {
			break
		}
		r := regionOf(mem, int(n))
		if s := r.state.Load(); s != regionOpen && s != regionFailed {
			continue
		}
		if r.size < 1 || r.size > mostRanks || r.rank < 0 || r.rank >= r.size || len(p.Communicators) >= mostOpen {
			continue // damaged
		}
		c := r.communicator(&h.clock, max(1, min(int(n), left)))
		left -= len(c.Operations)
		c.Clean()
		p.Communicators = append(p.Communicators, c)
	}
	return p, nil
}

// Of reads the records of a process of this host: from its memory file, which works whatever the process does.
func Of(pid int) (*Process, error) {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	list, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		path := filepath.Join(folder, e.Name())
		to, err := os.Readlink(path)
		if err != nil || !strings.Contains(filepath.Base(to), FileName) {
			continue
		}
		if p, err := ReadFile(path); err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("record: process %d: %w: it has no communicator of goccl, or GOCCL_RECORD=0", pid,
		os.ErrNotExist)
}

// Processes lists the processes of this host whose records this user can read.
func Processes() []int {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, path := range paths {
		pid, _ := strconv.Atoi(filepath.Base(path))
		if _, err := Of(pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
