package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/cmd/goccl/internal/links"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/driver"
	"github.com/goccl/goccl/internal/driver/nvml"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/internal/sysfile"
	"github.com/goccl/goccl/job/topo"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/ib"
	"github.com/goccl/goccl/transport/tcp"
)

func Host() Source {
	return Source{
		Environment: setting.Environ,
		Driver: func() (int, error) {
			if err := driver.Load(); err != nil {
				return 0, err
			}
			return driver.Version()
		},
		Hardware:    func() bool { return hardware("/") },
		Machine:     topo.Detect,
		Visible:     cuda.Count,
		PeerAccess:  cuda.CanAccessPeer,
		Links:       examineLinks,
		NICs:        examineNICs,
		Health:      nvml.ReadHealth,
		Isolation:   func(m *topo.Machine) Isolation { return isolated("/", m) },
		Plugin:      openPlugin,
		Share:       share,
		Limit:       limit,
		Shm:         shm,
		MemoryLimit: memoryLimit,
		CPUs:        runtime.NumCPU,
	}
}

// pairLimit bounds the examination of one pair, the first one with the start of CUDA on all GPUs.
const pairLimit = 15 * time.Second

// examineLinks has this program examine the links in a separate process.
func examineLinks(ctx context.Context, n int) ([]links.Verdict, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return links.Run(ctx, n, pairLimit, func(a, b int) *exec.Cmd {
		return exec.Command(exe, "doctor", "--pairs", fmt.Sprintf("%d,%d,%d", a, b, n))
	})
}

// nicLimit bounds the examination of one adapter.
const nicLimit = 5 * time.Second

func examineNICs(ctx context.Context) []links.NIC {
	env := setting.Lenient()
	nets := []transport.Net{
		tcp.NewNet(tcp.NetOptions{Interface: env.Interface, Family: env.Family}), ib.New(ib.Options{IB: env.IB}),
	}
	if n, err := pluginNet(); err == nil {
		nets = append(nets, n)
	}
	return links.MeasureNICs(ctx, nets, nicLimit)
}

// hardware reports whether PCI has a display or 3D controller of NVIDIA.
func hardware(root string) bool {
	files, _ := filepath.Glob(filepath.Join(root, "sys/bus/pci/devices/*/vendor"))
	for _, f := range files {
		dir := sysfile.Root(filepath.Dir(f))
		if dir.Read("vendor") == "0x10de" && strings.HasPrefix(dir.Read("class"), "0x03") {
			return true
		}
	}
	return false
}

// share exports a page of each kind of memory of GPU 0.
func share(context.Context) (vmm, legacy error) {
	d, err := cuda.Open(0)
	if err != nil {
		return err, err
	}
	defer func() {
		if err := d.Close(); err != nil {
			vmm, legacy = errors.Join(vmm, err), errors.Join(legacy, err)
		}
	}()
	if !d.Properties().VMM {
		vmm = fmt.Errorf("%w: no virtual memory management with file descriptors on %s", device.ErrUnsupported, d.Name())
	} else {
		vmm = export(d, d.Alloc)
	}
	return vmm, export(d, d.AllocLegacy)
}

func export(d *cuda.Device, alloc func(int64) (device.Allocation, error)) error {
	a, err := alloc(4096)
	if err != nil {
		return err
	}
	h, err := d.Export(a.Ptr())
	if err == nil && h.Type == device.HandleFD {
		err = unix.Close(h.FD)
	}
	return errors.Join(err, a.Close())
}

func limit(name string) (uint64, error) {
	which := map[string]int{"nofile": unix.RLIMIT_NOFILE, "memlock": unix.RLIMIT_MEMLOCK}
	var r unix.Rlimit
	if err := unix.Getrlimit(which[name], &r); err != nil {
		return 0, err
	}
	return r.Cur, nil // RLIM_INFINITY is Unlimited
}

func shm() (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil {
		return 0, fmt.Errorf("/dev/shm: %w", err)
	}
	return st.Blocks * uint64(st.Bsize), nil
}

// memoryLimit returns the smallest limit of the process's cgroup and of those above it.
func memoryLimit() (uint64, error) {
	n, err := memlimit.FromCgroup()
	if errors.Is(err, memlimit.ErrNoLimit) {
		return Unlimited, nil
	}
	return n, err
}
