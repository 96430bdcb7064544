package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goccl/goccl/internal/child"
)

// owner finds the files and processes that the processes of one trial leave. Root starts the processes in a group of
// the trial, which their files have, too. Other users cannot: for them only files count that are newer than the trial
// and have "goccl" in their names.
type owner struct {
	gid   int // 0: none
	since time.Time
}

var owners atomic.Uint32

// canMark reports whether processes of another group can be started here: a user namespace may not have the group.
var canMark = sync.OnceValue(func() bool {
	probe := exec.Command("true")
	owner{gid: groups}.mark(probe)
	return os.Geteuid() == 0 && child.Start(probe) == nil && probe.Wait() == nil
})

// groups is the first of the groups of trials.
const groups = 1 << 30

func newOwner() owner {
	o := owner{since: time.Now()}
	if canMark() {
		o.gid = groups | os.Getpid()&0x3fffff<<8 | int(owners.Add(1))&0xff
	}
	return o
}

// mark makes a command run in the group of the trial.
func (o owner) mark(cmd *exec.Cmd) {
	if o.gid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Gid: uint32(o.gid), NoSetGroups: true}}
	}
}

// left returns an error that lists the files and processes that the trial's processes have left, and removes them.
func (o owner) left() (err error) {
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(20 * ms) { // the kernel ends a process step by step
		if err = o.processes(syscall.Signal(0)); err == nil || time.Now().After(end) {
			break
		}
	}
	return errors.Join(err, o.processes(syscall.SIGKILL), o.files())
}

// processes sends a signal to the processes of the trial's group, and returns an error that lists them.
func (o owner) processes(s syscall.Signal) (err error) {
	if o.gid == 0 {
		return nil
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		info, gone := os.Stat(dir)
		if gone != nil || int(info.Sys().(*syscall.Stat_t).Gid) != o.gid {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		name, _ := os.ReadFile(dir + "/cmdline")
		if len(name) > 0 && syscall.Kill(pid, s) == nil { // else it is a zombie
			err = errors.Join(err, fmt.Errorf("process %d (%s) is left", pid, strings.ReplaceAll(string(name), "\x00", " ")))
		}
	}
	return err
}

func (o owner) files() (err error) {
	dirs := []string{"/tmp", "/var/tmp", "/dev/shm"}
	if d := os.TempDir(); d != dirs[0] {
		dirs = append(dirs, d)
	}
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			info, gone := e.Info()
			path := filepath.Join(dir, e.Name())
			switch {
			case gone != nil:
			case o.gid == 0 && strings.Contains(e.Name(), "goccl") && info.ModTime().After(o.since):
				err = errors.Join(err, fmt.Errorf("%s (%d bytes) is left", path, info.Size()))
			case o.gid != 0 && int(info.Sys().(*syscall.Stat_t).Gid) == o.gid:
				err = errors.Join(err, fmt.Errorf("%s (%d bytes) is left", path, info.Size()), os.RemoveAll(path))
			}
		}
	}
	return err
}
