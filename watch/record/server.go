package record

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/peercred"
)

// server is the socket through which processes of the same user read this one's records: an abstract unix socket, so
// that nothing remains of a process that was killed.
//
//  1. The reader connects; both users are compared.
//  2. It sends a line: the name of a format.
//  3. It gets a document, and the end of the stream.
type server struct {
	l     *net.UnixListener
	slots chan struct{} // bounds the connections that are served
	open  sync.WaitGroup
}

const (
	socketPrefix = "goccl/record/"
	mostReaders  = 8
	// readerLimit bounds the service of one reader.
	readerLimit = 5 * time.Second
)

// SocketName is the beginning of the names of a process's sockets, after the zero byte.
func SocketName(pid int) string { return fmt.Sprintf("%s%d/%d/", socketPrefix, os.Geteuid(), pid) }

// Socket finds the socket of a process, for Ask.
func Socket(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if _, name, ok := strings.Cut(line, " @"+SocketName(pid)); ok {
			return SocketName(pid) + strings.TrimSpace(name), nil
		}
	}
	return "", fmt.Errorf("record: process %d has no socket: %w: it has no communicator of goccl", pid, os.ErrNotExist)
}

// listenForReaders returns nil if the process can have no socket; its records are read from its memory file then.
func listenForReaders() *server {
	var tag [8]byte
	_, _ = rand.Read(tag[:])
	name := "@" + SocketName(os.Getpid()) + hex.EncodeToString(tag[:])
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: name})
	if err != nil {
		return nil
	}
	s := &server{l: l, slots: make(chan struct{}, mostReaders)}
	s.open.Go(s.serve)
	return s
}

func (s *server) close() {
	if s != nil {
		_ = s.l.Close()
		s.open.Wait()
	}
}

func (s *server) serve() {
	for {
		c, err := s.l.AcceptUnix()
		if err != nil {
			return
		}
		select {
		case s.slots <- struct{}{}:
			s.open.Go(func() {
				defer func() { <-s.slots }()
				answer(c)
			})
		default:
			_ = c.Close()
		}
	}
}

func answer(c *net.UnixConn) {
	defer func() { _ = c.Close() }()
	if uid, err := peercred.UID(c); err != nil || uid != os.Geteuid() {
		return
	}
	_ = c.SetDeadline(time.Now().Add(readerLimit))
	line, err := bufio.NewReader(io.LimitReader(c, 64)).ReadString('\n')
	if err != nil {
		return
	}
	_ = Write(c, Here(), strings.TrimSpace(line))
}

// Ask reads a document of another process of this user through its socket, by its name without the zero byte.
func Ask(name, format string) ([]byte, error) {
	c, err := net.DialTimeout("unix", "@"+name, readerLimit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if uid, err := peercred.UID(c.(*net.UnixConn)); err != nil || uid != os.Geteuid() {
		return nil, fmt.Errorf("record: the socket %s belongs to user %d: %w", name, uid, os.ErrPermission)
	}
	_ = c.SetDeadline(time.Now().Add(2 * readerLimit))
	if _, err := fmt.Fprintln(c, format); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(c, mostFile))
}

// stacks is the stacks of all goroutines.
func stacks() []byte {
	for n := 1 << 16; ; n *= 2 {
		b := make([]byte, n)
		if k := runtime.Stack(b, true); k < n || n >= 1<<24 {
			return b[:k]
		}
	}
}
