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
)

// ErrFormat means that a file is not one of records, or is damaged.
var ErrFormat = errors.New("record: not a file of records")

// mostFile bounds what is read of a file.
const mostFile = 1 << 28

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
	mem, err := io.ReadAll(io.LimitReader(f, mostFile))
	if err != nil {
		return nil, err
	}
	p, err := decode(mem)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p.Time = max(p.Time, info.ModTime().UnixNano())
	return p, nil
}

// decode reads the copy of a file, of which nothing is trusted.
func decode(mem []byte) (*Process, error) {
	if len(mem) < headerBytes || binary.NativeEndian.Uint64(mem) != fileMagic {
		return nil, ErrFormat
	}
	h := (*header)(unsafe.Pointer(&mem[0]))
	n := h.entries
	size := int64(h.size)
	if h.version != fileVersion || n == 0 || n > mostEntries || n&(n-1) != 0 || h.regions.Load() > mostRegions ||
		size < regionBytes(int(n)) || size%8 != 0 {
		return nil, fmt.Errorf("%w: version %d with rings of %d", ErrFormat, h.version, n)
	}
	p := &Process{Version: fileVersion, Time: h.clock.unix1.Load(), Host: string(get(h.host[:])), PID: int(h.pid),
		Program: string(get(h.program[:])), Communicators: []*Communicator{}}
	for i := range int64(h.regions.Load()) {
		from := headerBytes + i*size
		if from+size > int64(len(mem)) {
			break
		}
		r := regionOf(mem[from:from+size], int(n))
		if s := r.state.Load(); s == regionOpen || s == regionFailed {
			p.Communicators = append(p.Communicators, r.communicator(&h.clock, 0))
		}
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
	list, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if _, err := Of(pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
