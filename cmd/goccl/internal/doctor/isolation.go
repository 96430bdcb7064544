package doctor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/job/topo"
)

// Isolation is what a container, the firmware and the kernel allow.
type Isolation struct {
	// Seccomp is the field of /proc/self/status: "0" none, "2" a filter; "" if it is not known.
	Seccomp string
	// Refused are system calls that fail with EPERM or ENOSYS, and what needs them.
	Refused map[string]string
	// Namespaces that are not the host's: "pid", "ipc", "net", "user".
	Namespaces []string
	// Redirecting are PCI bridges above GPUs whose access control (ACS) sends traffic between devices to the root;
	// Blind is true if their registers may not be read.
	Redirecting []string
	Blind       bool
	// Translated are GPUs whose PCIe traffic an IOMMU translates.
	Translated []string
}

func (s Source) isolation(r *report, m *topo.Machine) {
	if s.Isolation == nil {
		return
	}
	r.area = "isolation"
	i := s.Isolation(m)
	if i.Seccomp != "" {
		switch {
		case len(i.Refused) > 0:
			var calls []string
			for _, name := range slices.Sorted(maps.Keys(i.Refused)) {
				calls = append(calls, name+" ("+i.Refused[name]+")")
			}
			r.warn("system calls", "allow them in the container's seccomp profile, or start it with --security-opt "+
				"seccomp=unconfined or --cap-add SYS_PTRACE", "refused: %s", strings.Join(calls, ", "))
		case i.Seccomp == "0":
			r.ok("system calls", "no seccomp filter")
		default:
			r.ok("system calls", "a seccomp filter, which allows those that matter")
		}
	}
	if len(i.Namespaces) > 0 {
		r.ok("namespaces", "own %s: ranks in other containers need the same (--ipc=container:…, --pid=…) for CUDA's "+
			"legacy IPC and NCCL's /dev/shm", strings.Join(i.Namespaces, ", "))
	} else {
		r.ok("namespaces", "those of the host")
	}
	if m != nil && len(m.GPUs) > 1 {
		s.pci(r, &i)
	}
}

func (s Source) pci(r *report, i *Isolation) {
	switch {
	case len(i.Redirecting) > 0:
		r.warn("ACS", "turn it off in the firmware, or with setpci -v -s BRIDGE ECAP_ACS+6.w=0000 at every boot; not "+
			"where virtual machines use the GPUs", "the bridges %s send traffic between devices to the processor: peer "+
			"access over PCIe is slow or does not work", strings.Join(i.Redirecting, ", "))
	case i.Blind:
		r.warn("ACS", "sudo goccl doctor", "the registers of PCI bridges may be read by root only: whether access control "+
			"sends traffic between GPUs to the processor is not known")
	default:
		r.ok("ACS", "no bridge above a GPU redirects traffic between devices")
	}
	if len(i.Translated) > 0 {
		r.warn("IOMMU", "boot with iommu=pt (intel_iommu=on iommu=pt, amd_iommu=on iommu=pt), or turn it off in the "+
			"firmware", "it translates the traffic of %s: peer access over PCIe goes through it or fails",
			strings.Join(i.Translated, ", "))
	} else {
		r.ok("IOMMU", "off or passing through")
	}
}

// isolated looks at this process and at the bridges above the GPUs.
func isolated(root string, m *topo.Machine) Isolation {
	i := Isolation{Refused: map[string]string{}}
	status, _ := os.ReadFile(filepath.Join(root, "proc/self/status"))
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "Seccomp:"); ok {
			i.Seccomp = strings.TrimSpace(v)
		}
	}
	for _, ns := range []string{"ipc", "net", "pid", "user"} {
		mine, errMine := os.Readlink(filepath.Join(root, "proc/self/ns", ns))
		first, errFirst := os.Readlink(filepath.Join(root, "proc/1/ns", ns))
		if errMine == nil && errFirst == nil && mine != first {
			i.Namespaces = append(i.Namespaces, ns)
		}
	}
	tried := map[string]struct {
		need string
		err  error
	}{"memfd_create": {"shared memory of goccl", tried(unix.MemfdCreate("goccl-doctor", unix.MFD_CLOEXEC))},
		"pidfd_open":       {"notice of a death", tried(unix.PidfdOpen(os.Getpid(), 0))},
		"process_vm_readv": {"host buffers of other ranks in MPI and UCX", tryReadv()},
		"get_mempolicy":    {"NUMA placement in NCCL", tryMempolicy()}}
	for name, t := range tried {
		if t.err == unix.EPERM || t.err == unix.ENOSYS {
			i.Refused[name] = t.need
		}
	}
	if m == nil {
		return i
	}
	for _, g := range m.GPUs {
		kind, err := os.ReadFile(filepath.Join(root, "sys/bus/pci/devices", g.BusID, "iommu_group/type"))
		if t := strings.TrimSpace(string(kind)); err == nil && strings.HasPrefix(t, "DMA") {
			i.Translated = append(i.Translated, fmt.Sprintf("GPU %d (%s)", g.Index, t))
		}
		dir, err := filepath.EvalSymlinks(filepath.Join(root, "sys/bus/pci/devices", g.BusID))
		if err != nil {
			continue
		}
		for dir = filepath.Dir(dir); strings.Count(filepath.Base(dir), ":") == 2; dir = filepath.Dir(dir) {
			redirects, err := acsRedirects(filepath.Join(dir, "config"))
			i.Blind = i.Blind || err != nil
			if name := filepath.Base(dir); redirects && !strings.Contains(strings.Join(i.Redirecting, " "), name) {
				i.Redirecting = append(i.Redirecting, name)
			}
		}
	}
	return i
}

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
