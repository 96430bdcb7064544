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

// When a launcher is killed, the kernel kills its ranks (PR_SET_PDEATHSIG), but not their descendants. The keeper does
// that: a process that receives the ranks' groups over a pipe, and kills the remaining groups at the end of the pipe,
// which comes when the launcher ends for any reason.
//
// The keeper is this same program, started under a special name in its own session, so that signals of the terminal do
// not reach it.

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
		return nil, fmt.Errorf("launch: start the process that ends the ranks' descendants: %w", err)
	}
	return &keeper{cmd, w}, nil
}

// watch and forget add and remove a group. One line is one write, which a pipe does not split.
func (k *keeper) watch(group int)  { _, _ = fmt.Fprintf(k.pipe, "+%d\n", group) }
func (k *keeper) forget(group int) { _, _ = fmt.Fprintf(k.pipe, "-%d\n", group) }

func (k *keeper) close() {
	_ = k.pipe.Close()
	_ = k.cmd.Wait()
}

// keep is the main loop of the keeper.
func keep(pipe *os.File) {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGTERM)
	groups := map[int]bool{}
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		if n, err := strconv.Atoi(lines.Text()); err == nil && (n > 1 || n < -1) {
			groups[max(n, -n)] = n > 0
		}
	}
	// Repeated, since a group may still be growing.
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
