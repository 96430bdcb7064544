package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/child"
)

// process is one running rank.
type process struct {
	rank  int
	keep  *keeper
	cmd   *exec.Cmd
	pipes []*os.File // the read ends
	drain sync.WaitGroup

	mu     sync.Mutex // guards reaped: afterwards the process id may be reused
	reaped bool
}

// start starts one rank. output serialises the lines of all ranks.
func start(o Options, rank int, env []string, output *sync.Mutex, k *keeper) (*process, error) {
	p := &process{rank: rank, keep: k, cmd: command(o, rank, env)}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			p.closePipes()
			return nil, err
		}
		p.pipes = append(p.pipes, r)
		theirs = append(theirs, w)
	}
	p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1]
	if err := child.Start(p.cmd); err != nil {
		p.closePipes()
		return nil, err
	}
	k.watch(p.cmd.Process.Pid)
	prefix := fmt.Sprintf("[%*d] ", len(strconv.Itoa(o.N-1)), rank) // as long on all ranks
	p.drain.Go(func() { copyLines(o.Stdout, output, prefix, p.pipes[0]) })
	p.drain.Go(func() { copyLines(o.Stderr, output, prefix, p.pipes[1]) })
	return p, nil
}

func (p *process) closePipes() {
	for _, f := range p.pipes {
		_ = f.Close()
	}
}

// wait returns when the rank has ended, its group is killed and its output is copied. It returns nil for exit status 0.
func (p *process) wait() *ExitError {
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	p.keep.forget(p.cmd.Process.Pid)
	p.mu.Lock()
	err := p.cmd.Wait()
	p.reaped = true
	p.mu.Unlock()

	// A descendant that left the group may still hold the pipe.
	late := time.AfterFunc(drainDelay, p.closePipes)
	p.drain.Wait()
	late.Stop()
	p.closePipes()

	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return &ExitError{Rank: p.rank, Code: -1, Err: err}
	}
	e := &ExitError{Rank: p.rank, Code: exit.ExitCode()}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Code, e.Signal = -1, ws.Signal()
	}
	return e
}

func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = unix.Kill(-p.cmd.Process.Pid, s)
	}
}

// maxLine is the length at which a line is split.
const maxLine = 64 << 10

// copyLines copies r to w until r ends, each line in one write with the prefix. It keeps reading when a write fails,
// because the rank would block otherwise.
func copyLines(w io.Writer, mu *sync.Mutex, prefix string, r io.Reader) {
	in := bufio.NewReaderSize(r, maxLine)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(part) > 0 {
			line = append(append(line[:0], prefix...), part...)
			if part[len(part)-1] != '\n' {
				line = append(line, '\n')
			}
			mu.Lock()
			_, _ = w.Write(line)
			mu.Unlock()
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}
