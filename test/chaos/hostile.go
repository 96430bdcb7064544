package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/job/bootstrap"
)

// strangers are processes that are no part of the job and disturb it.
func strangers() []*fault {
	all := []string{"joining", "set-up", "small", "split", "colors", "grow", "plan", "proxy"}
	return []*fault{
		{Name: "junk", Number: 10, Help: "a stranger writes random bytes to every socket of the job", expect: nothing,
			phases: all, outside: (*experiment).junk},
		{Name: "junk-user", Number: 10, Help: "the same as another user", expect: nothing, phases: all,
			outside: (*experiment).junkOfUser},
		{Name: "idle-connections", Number: 11, Help: "a stranger opens 100 connections to every socket and says nothing",
			expect: nothing, phases: all, outside: (*experiment).silence},
		{Name: "wrong-secret", Number: 12, Help: "a stranger joins as a rank, without the secret", expect: nothing,
			phases: []string{"joining"}, outside: (*experiment).impostor},
		{Name: "replay", Number: 12, Help: "a stranger repeats what a rank sent when it joined", expect: nothing,
			phases: []string{"joining"}, outside: (*experiment).replay, tap: func([]byte) {}},
		{Name: "mixed", Number: 12, Help: "the last rank has another release of goccl", expect: otherRelease,
			victims: func(_ *rand.Rand, n int) []int { return []int{n - 1} }, phases: []string{"joining"},
			tap: func(greeting []byte) { greeting[4]++ }, outside: func(x *experiment) error {
				select {
				case <-x.tap.sent:
				case <-time.After(limit):
					return fmt.Errorf("the rank sent nothing through the tap")
				}
				x.struckAt = time.Now()
				return nil
			}},
	}
}

// sockets returns what the processes of the job listen on.
func (x *experiment) sockets() (list []net.Addr) {
	mine := map[string]bool{}
	for r := range x.job.Size() {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", x.job.Process(r).Pid))
		for _, l := range links {
			if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, "socket:[") {
				mine[to[8:len(to)-1]] = true
			}
		}
	}
	unixes, _ := os.ReadFile("/proc/net/unix")
	for line := range strings.Lines(string(unixes)) {
		if f := strings.Fields(line); len(f) == 8 && f[3] == "00010000" && mine[f[6]] {
			list = append(list, &net.UnixAddr{Name: f[7], Net: "unix"})
		}
	}
	tcps, _ := os.ReadFile("/proc/net/tcp")
	for line := range strings.Lines(string(tcps)) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != "0A" || !mine[f[9]] {
			continue
		}
		host, port, _ := strings.Cut(f[1], ":")
		ip, _ := strconv.ParseUint(host, 16, 32)
		p, _ := strconv.ParseUint(port, 16, 16)
		list = append(list, &net.TCPAddr{IP: net.IPv4(byte(ip), byte(ip>>8), byte(ip>>16), byte(ip>>24)), Port: int(p)})
	}
	return list
}

// harass calls f with each socket of the job, again and again for a while.
func (x *experiment) harass(f func(a net.Addr)) error { return x.harassAt(x.sockets, f) }

// harassAt is harass with a function that finds the sockets.
func (x *experiment) harassAt(sockets func() []net.Addr, f func(a net.Addr)) error {
	found := 0
	for end := time.Now().Add(200 * ms); time.Now().Before(end); time.Sleep(5 * ms) {
		list := sockets()
		found = max(found, len(list))
		for _, a := range list {
			f(a)
		}
	}
	if found == 0 {
		return fmt.Errorf("the job has no socket to disturb")
	}
	return nil
}

func (x *experiment) junk() error { return x.junkAt(x.sockets) }

// junkOfUser is junk of another user, who cannot see what the processes of the job hold.
func (x *experiment) junkOfUser() error {
	var list []net.Addr
	if err := x.harass(func(a net.Addr) { list = append(list, a) }); err != nil {
		return err
	}
	return asNobody(func() error { return x.junkAt(func() []net.Addr { return list[:min(len(list), 50)] }) })
}

func (x *experiment) junkAt(sockets func() []net.Addr) error {
	rng := rand.New(rand.NewPCG(x.Seed, 5))
	return x.harassAt(sockets, func(a net.Addr) {
		c, err := net.DialTimeout(a.Network(), a.String(), 100*ms)
		if err != nil {
			return
		}
		b := make([]byte, rng.IntN(4096))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if rng.IntN(2) == 0 { // what looks like a length of 4 GB
			b = append([]byte{255, 255, 255, 255}, b...)
		}
		_ = c.SetDeadline(time.Now().Add(50 * ms))
		_, _ = c.Write(b)
		if rng.IntN(2) == 0 {
			_, _ = c.Read(make([]byte, 64))
		}
		_ = c.Close()
	})
}

func (x *experiment) silence() error {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	for _, a := range x.sockets() {
		for range 100 {
			if c, err := net.DialTimeout(a.Network(), a.String(), 100*ms); err == nil {
				open = append(open, c)
			}
		}
	}
	time.Sleep(100 * ms)
	return nil
}

// asNobody calls f on a thread that belongs to another user.
func asNobody(f func() error) error {
	const nobody = 65534
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); e != 0 {
			done <- fmt.Errorf("become another user, which needs root: %w", e)
			return
		}
		done <- f()
	}()
	return <-done
}

// impostor joins as a rank of the job with another secret. The job goes on.
func (x *experiment) impostor() error {
	ctx, stop := context.WithTimeout(context.Background(), 500*ms)
	defer stop()
	b, err := bootstrap.JoinAddress(ctx, x.Address, 1, x.Ranks,
		bootstrap.WithSecret([]byte("a wrong secret")), bootstrap.WithTimeout(500*ms))
	if err == nil {
		return errors.Join(fmt.Errorf("a rank joined with a wrong secret"), b.Close())
	}
	return nil
}

// tap relays a rank's way to the root and keeps what the rank sends.
type tap struct {
	l      net.Listener
	sent   chan []byte
	change func(greeting []byte) // what each side sends first
}

func newTap(to string, change func([]byte)) (*tap, error) {
	l, err := net.Listen("unix", to+"-tap")
	if err != nil {
		return nil, err
	}
	t := &tap{l, make(chan []byte, 100), change}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go t.relay(c, to)
		}
	}()
	return t, nil
}

func (t *tap) relay(c net.Conn, to string) {
	defer func() { _ = c.Close() }()
	var d net.Conn
	var err error
	for range 100 {
		if d, err = net.Dial("unix", to); err == nil {
			break
		}
		time.Sleep(5 * ms)
	}
	if err != nil {
		return
	}
	defer func() { _ = d.Close() }()
	go func() {
		t.carry(d, c, func([]byte) {})
		_ = c.Close()
	}()
	t.carry(c, d, func(b []byte) {
		select {
		case t.sent <- slices.Clone(b):
		default:
		}
	})
}

func (t *tap) carry(from, to net.Conn, note func(b []byte)) {
	b := make([]byte, 64<<10)
	first := true
	for n, err := from.Read(b); err == nil; n, err = from.Read(b) {
		if note(b[:n]); first && n > 8 {
			first = false
			t.change(b[:n])
		}
		_, _ = to.Write(b[:n])
	}
}

// replay sends to every socket of the job what the tapped rank sent when it joined.
func (x *experiment) replay() error {
	var sent []byte
	for end := time.After(100 * ms); ; {
		select {
		case b := <-x.tap.sent:
			sent = append(sent, b...)
			continue
		case <-end:
		}
		break
	}
	if len(sent) == 0 {
		return fmt.Errorf("the rank sent nothing through the tap")
	}
	return x.harass(func(a net.Addr) {
		if c, err := net.DialTimeout(a.Network(), a.String(), 100*ms); err == nil {
			_, _ = c.Write(sent)
			_ = c.Close()
		}
	})
}
