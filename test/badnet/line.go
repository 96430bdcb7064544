package badnet

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/netns"
)

// Inside calls f in a network namespace of "ip netns". Sockets that f makes belong to it.
func Inside(ns string, f func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		fd, err := unix.Open("/var/run/netns/"+ns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			_ = unix.Close(fd)
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	return <-done
}

// Line is the cable between two hosts, which loses packets and delays them. It is made of two TUN devices, because not
// every kernel has netem.
type Line struct {
	*netns.Network
	loss  atomic.Int64 // per thousand
	delay atomic.Int64
	ends  [2]*os.File
	wg    sync.WaitGroup
}

// Bad sets the share of packets that are lost and the time that each takes, in both directions.
func (l *Line) Bad(loss float64, delay time.Duration) {
	l.loss.Store(int64(loss * 1000))
	l.delay.Store(int64(delay))
}

var count atomic.Int32

// NewLine makes two hosts with a Line as the cable. If that is not permitted, the error has the reason.
func NewLine() (*Line, error) {
	name := fmt.Sprintf("goccl%d-%d", os.Getpid(), count.Add(1))
	line := &Line{Network: &netns.Network{}}
	for i := range line.ends {
		ns := fmt.Sprintf("%sl%d", name, i)
		line.Hosts = append(line.Hosts, ns)
		err := netns.IP("netns add " + ns)
		if err == nil {
			var opened error
			err = Inside(ns, func() { line.ends[i], opened = openTUN() })
			if err == nil && opened != nil {
				err = fmt.Errorf("no TUN devices here: %w", opened)
			}
		}
		for _, cmd := range []string{fmt.Sprintf("addr add %s/24 dev %s", line.Address(i), netns.Cable),
			"link set " + netns.Cable + " up", "link set lo up"} {
			if err == nil {
				err = netns.IP("-n " + ns + " " + cmd)
			}
		}
		if err != nil {
			line.Close()
			return nil, err
		}
	}
	for i := range 2 {
		line.wg.Go(func() { line.carry(line.ends[i], line.ends[1-i]) })
	}
	return line, nil
}

// Close removes the hosts, and the Line.
func (l *Line) Close() {
	for _, f := range l.ends {
		if f != nil {
			_ = f.Close()
		}
	}
	l.wg.Wait()
	l.Network.Close()
}

func openTUN() (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var req [40]byte // struct ifreq
	copy(req[:], netns.Cable)
	*(*uint16)(unsafe.Pointer(&req[16])) = unix.IFF_TUN | unix.IFF_NO_PI
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TUNSETIFF, uintptr(unsafe.Pointer(&req))); e != 0 {
		_ = unix.Close(fd)
		return nil, e
	}
	return os.NewFile(uintptr(fd), "tun"), nil
}

// carry moves packets one way until the devices are closed. A full queue loses them, as a router's does.
func (l *Line) carry(from, to *os.File) {
	type packet struct {
		due  time.Time
		data []byte
	}
	queue := make(chan packet, 1000)
	defer close(queue)
	l.wg.Go(func() {
		for p := range queue {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.data)
		}
	})
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if rand.Int64N(1000) < l.loss.Load() {
			continue
		}
		select {
		case queue <- packet{time.Now().Add(time.Duration(l.delay.Load())), append([]byte(nil), b[:n]...)}:
		default:
		}
	}
}
