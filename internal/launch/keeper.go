package launch

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A launcher that is killed takes its ranks with it (PR_SET_PDEATHSIG), but not what the ranks have started. For that there is a keeper: a process that knows the
// ranks' groups by a pipe, and kills those that are left when the pipe ends, which it does when the launcher ends in whatever way.
//
// The keeper is this very program, told by its name, in a session of its own: no signal of the terminal meets it.

const keeperName = "goccl-keeper"

func init() {
	if len(os.Args) == 1 && os.Args[0] == keeperName {
		keep(os.Stdin)
		os.Exit(0)
	}
}

// keeper is the launcher's end.
type keeper struct {
	cmd  *exec.Cmd
	pipe *os.File
}

func startKeeper() (*keeper, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Stdin, cmd.SysProcAttr = []string{keeperName}, r, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("launch: start the process that ends what ranks leave behind: %w", err)
	}
	return &keeper{cmd, w}, nil
}

// watch and forget tell it of a group. One line is one write, which a pipe does not divide.
func (k *keeper) watch(group int)  { _, _ = fmt.Fprintf(k.pipe, "+%d\n", group) }
func (k *keeper) forget(group int) { _, _ = fmt.Fprintf(k.pipe, "-%d\n", group) }

func (k *keeper) close() {
	_ = k.pipe.Close()
	_ = k.cmd.Wait()
}

// keep is the life of the keeper.
func keep(pipe *os.File) {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGTERM)
	groups := map[int]bool{}
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		if n, err := strconv.Atoi(lines.Text()); err == nil && (n > 1 || n < -1) {
			groups[max(n, -n)] = n > 0
		}
	}
	// Again and again: a group may still be growing.
	for end := time.Now().Add(killDelay); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		left := false
		for g, watched := range groups {
			left = watched && unix.Kill(-g, unix.SIGKILL) == nil || left
		}
		if !left {
			return
		}
	}
}
