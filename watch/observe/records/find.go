package records

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// File is an open memory file of a process.
type File struct {
	// PID is its number below proc; in a container it has another one for itself.
	PID int
	// UID is the user who has made it.
	UID   uint32
	f     *os.File
	inode uint64
}

// Read decodes what the plugin's memory holds now.
func (f *File) Read() (*Process, error) { return Read(f.f) }

// Path names the open file, also after the process has ended.
func (f *File) Path() string { return fmt.Sprintf("/proc/self/fd/%d", f.f.Fd()) }

// Key names the memory.
func (f *File) Key() string { return strconv.FormatUint(f.inode, 10) }

// Close ends the reading.
func (f *File) Close() error { return f.f.Close() }

// Profiler and Recorder are the names of the memory files of libgoccl-profiler.so and of goccl's recorder.
const (
	Profiler = "goccl-profiler"
	Recorder = "goccl-records"
)

// Find opens the memory files of a name of the processes below proc that may be read, are not in known, and that keep
// accepts. pids limits it to some processes; nil: all. denied counts processes whose descriptors may not be looked at.
func Find(proc, name string, pids []int, known func(key string) bool, keep func(*File) bool) (
	found []*File, denied int,
) {
	var dirs []string
	if pids == nil {
		dirs, _ = filepath.Glob(filepath.Join(proc, "[0-9]*", "fd"))
	}
	for _, p := range pids {
		dirs = append(dirs, filepath.Join(proc, strconv.Itoa(p), "fd"))
	}
	for _, dir := range dirs {
		fds, err := os.ReadDir(dir)
		if os.IsPermission(err) {
			denied++
		}
		for _, fd := range fds {
			path := filepath.Join(dir, fd.Name())
			target, err := os.Readlink(path)
			if err != nil || !strings.HasPrefix(target, "/memfd:"+name) {
				continue
			}
			if f := open(path, known); f != nil {
				f.PID, _ = strconv.Atoi(filepath.Base(filepath.Dir(dir)))
				if !f.owned(proc) || !keep(f) {
					_ = f.Close()
					continue
				}
				found = append(found, f)
			}
		}
	}
	return found, denied
}

// owned tells whether the process itself has made the file; others, such as another goccl watch, may have opened it.
// Both kinds of memory have the maker's number of itself at byte 12; in a container that is its last NSpid.
func (f *File) owned(proc string) bool {
	var b [4]byte
	if _, err := f.f.ReadAt(b[:], 12); err != nil {
		return false
	}
	status, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(f.PID), "status"))
	if err != nil {
		return false
	}
	self := strconv.Itoa(int(binary.NativeEndian.Uint32(b[:])))
	for line := range strings.Lines(string(status)) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			all := strings.Fields(numbers)
			return len(all) > 0 && all[len(all)-1] == self
		}
	}
	return strconv.Itoa(f.PID) == self
}

// open opens a memory file; nil if it cannot be opened or is known.
func open(path string, known func(string) bool) *File {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	file := &File{f: f}
	st, err := f.Stat()
	if err == nil {
		if s, ok := st.Sys().(*syscall.Stat_t); ok {
			file.inode, file.UID = s.Ino, s.Uid
		}
	}
	if err != nil || !st.Mode().IsRegular() || known(file.Key()) {
		_ = f.Close()
		return nil
	}
	return file
}
