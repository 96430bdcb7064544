package leak

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Substrings of the names of goccl's sockets and files. The tests use other names, because other jobs and tests look
// for leftovers at the same time.
var socketMark, fileMark = "@goccl-", "goccl"

// Watch notes the sockets of the processes that this process starts, while they run.
//
// The table of sockets covers the network namespace. Other jobs there, of other users, containers and tests, may
// hold sockets while their descriptors cannot be seen from here. So only those sockets count that this process or a
// descendant was seen to hold. Reading is cheap: two milliseconds with a hundred processes.
type Watch struct {
	every         time.Duration
	stop, stopped chan struct{}
	once          sync.Once

	noted map[string]string // names by inode; belongs to run until stopped is closed
	err   error
}

// NewWatch starts watching, and looks that often. The caller calls Leftovers or End in any case.
func NewWatch(every time.Duration) *Watch {
	w := &Watch{every: every, stop: make(chan struct{}), stopped: make(chan struct{}), noted: map[string]string{}}
	go w.run()
	return w
}

func (w *Watch) run() {
	defer close(w.stopped)
	for {
		held, err := heldSockets(w.noted)
		for inode, name := range held {
			w.noted[inode] = name
		}
		w.err = errors.Join(w.err, err)
		select {
		case <-w.stop:
			return
		case <-time.After(w.every):
		}
	}
}

// End ends the watch.
func (w *Watch) End() {
	w.once.Do(func() { close(w.stop) })
	<-w.stopped
}

// Leftovers ends the watch. It returns nil if the processes of the given groups have ended, each noted socket that
// still exists has a process, and no file of goccl is in /dev/shm. It checks for up to two seconds, because the kernel
// ends a process step by step.
func (w *Watch) Leftovers(groups ...int) error {
	w.End()
	if w.err != nil {
		return w.err
	}
	for looks, end := 1, time.Now().Add(2*time.Second); ; looks++ {
		err := left(groups)
		orphans, e := orphanSockets()
		for inode, name := range orphans {
			if w.noted[inode] != "" {
				e = errors.Join(e, fmt.Errorf("socket %s, inode %s, is left", name, inode))
			}
		}
		// A check takes a second on a busy machine.
		if err = errors.Join(err, e); err == nil || looks >= 5 && time.Now().After(end) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// left checks for processes and files.
func left(groups []int) error {
	for _, g := range groups {
		if err := syscall.Kill(-g, 0); err == nil {
			return fmt.Errorf("processes of group %d are left", g)
		}
	}
	shm, err := os.ReadDir("/dev/shm")
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, e := range shm {
		if strings.Contains(e.Name(), fileMark) {
			return fmt.Errorf("/dev/shm/%s is left", e.Name())
		}
	}
	return nil
}

// heldSockets returns goccl's abstract sockets that this process and its descendants hold, by inode, except the noted
// ones. Only a socket that is not noted lets it look at the processes, which costs most.
func heldSockets(noted map[string]string) (map[string]string, error) {
	all, err := sockets()
	for inode := range noted {
		delete(all, inode)
	}
	if err != nil || len(all) == 0 {
		return all, err
	}
	held := map[string]string{}
	for _, pid := range family() {
		for _, inode := range inodes(strconv.Itoa(pid)) {
			if name := all[inode]; name != "" {
				held[inode] = name
			}
		}
	}
	return held, nil
}

// orphanSockets returns goccl's abstract sockets that no process holds, by inode.
func orphanSockets() (map[string]string, error) {
	all, err := sockets()
	if err == nil && len(all) > 0 {
		for _, inode := range inodes("[0-9]*") {
			delete(all, inode)
		}
	}
	return all, err
}

// inodes returns the sockets of the processes that match a pattern.
func inodes(processes string) []string {
	var found []string
	fds, _ := filepath.Glob("/proc/" + processes + "/fd/*")
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err == nil && strings.HasPrefix(link, "socket:[") {
			found = append(found, strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]"))
		}
	}
	return found
}

// family returns this process and its descendants.
func family() []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var pid, parent int
		_, rest, _ := strings.Cut(string(text), ") ") // a name may contain anything
		if _, err := fmt.Sscanf(rest[min(len(rest), 2):], "%d", &parent); err != nil {
			continue
		}
		if _, err := fmt.Sscanf(string(text), "%d", &pid); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	all := []int{os.Getpid()}
	for i := 0; i < len(all); i++ {
		all = slices.Concat(all, children[all[i]])
	}
	return all
}

// sockets returns the names of goccl's abstract sockets by inode.
func sockets() (map[string]string, error) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for line := range strings.Lines(string(table)) {
		// A connection has inode 0 until it is accepted; it is found by its listener's inode.
		if f := strings.Fields(line); len(f) == 8 && strings.HasPrefix(f[7], socketMark) && f[6] != "0" {
			names[f[6]] = f[7]
		}
	}
	return names, nil
}
