package doctor

import (
	"encoding/binary"
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tried closes what a system call has opened, and returns its error.
func tried(fd int, err error) error {
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func tryReadv() error {
	from, to := [1]byte{1}, [1]byte{}
	local := []unix.Iovec{{Base: &to[0]}}
	local[0].SetLen(1)
	_, err := unix.ProcessVMReadv(os.Getpid(), local,
		[]unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from[0])), Len: 1}}, 0)
	return err
}

func tryMempolicy() error {
	var mode int32
	if _, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), 0, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

var errNoExtended = errors.New("the extended registers may be read by root only")

// acsRedirects reads a bridge's registers: whether access control sends requests or completions between devices below
// it to the root. A bridge without access control does not.
func acsRedirects(config string) (bool, error) {
	b, err := os.ReadFile(config)
	if err != nil {
		return false, err
	}
	if len(b) < 0x104 {
		return false, errNoExtended
	}
	const acs, redirectRequests, redirectCompletions = 0x0d, 1 << 2, 1 << 3
	for at, steps := 0x100, 0; at >= 0x100 && at+8 <= len(b) && steps < 100; steps++ {
		head := binary.LittleEndian.Uint32(b[at:])
		if head&0xffff == acs {
			return binary.LittleEndian.Uint16(b[at+6:])&(redirectRequests|redirectCompletions) != 0, nil
		}
		at = int(head >> 20)
	}
	return false, nil
}
