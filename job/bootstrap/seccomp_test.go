package bootstrap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Variables that restrict a child of this test binary; it applies them before anything else.
const (
	forbidVariable = "GOCCL_TEST_FORBID" // "memfd_create=38 seals=22": system calls that fail, with their errno
	limitVariable  = "GOCCL_TEST_NOFILE" // the limit of open files
)

// forbidden are the system calls that forbid supports. "seals" is fcntl(F_ADD_SEALS) with F_SEAL_FUTURE_WRITE, as on a
// kernel before 5.1.
var forbidden = map[string]uint32{
	"memfd_create": unix.SYS_MEMFD_CREATE, "ftruncate": unix.SYS_FTRUNCATE, "get_robust_list": unix.SYS_GET_ROBUST_LIST,
	"set_robust_list": unix.SYS_SET_ROBUST_LIST, "seals": unix.SYS_FCNTL,
}

// restrict applies the variables.
func restrict() error {
	if s := os.Getenv(limitVariable); s != "" {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return err
		}
		// Go's poller takes its descriptors with the first pipe; without them Go ends the process.
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		if err := errors.Join(r.Close(), w.Close()); err != nil {
			return err
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
	}
	for _, order := range strings.Fields(os.Getenv(forbidVariable)) {
		name, number, _ := strings.Cut(order, "=")
		errno, err := strconv.ParseUint(number, 10, 16)
		if _, known := forbidden[name]; err != nil || !known {
			return fmt.Errorf("order %q", order)
		}
		if err := forbid(name, uint32(errno)); err != nil {
			return err
		}
	}
	return nil
}

// forbid makes a system call fail in all threads of this process from now on (seccomp with a BPF filter).
func forbid(name string, errno uint32) error {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		bits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
		// Offsets in struct seccomp_data: the number, then the low halves of the second and the third argument.
		atNumber, atSecond, atThird = 0, 24, 32
	)
	filter := []unix.SockFilter{{Code: load, K: atNumber}, {Code: equal, K: forbidden[name], Jf: 1}}
	if name == "seals" {
		filter[1].Jf = 5
		filter = append(filter, unix.SockFilter{Code: load, K: atSecond},
			unix.SockFilter{Code: equal, K: unix.F_ADD_SEALS, Jf: 3},
			unix.SockFilter{Code: load, K: atThird}, unix.SockFilter{Code: bits, K: unix.F_SEAL_FUTURE_WRITE, Jf: 1})
	}
	filter = append(filter, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | errno},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return fmt.Errorf("the filter is written for little-endian machines")
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))); e != 0 {
		return e
	}
	return nil
}
