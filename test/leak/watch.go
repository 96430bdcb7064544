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

	"github.com/goccl/goccl/internal/proc"
)

// Substrings of the names of goccl's sockets and files. The tests use other names, because other jobs and tests look
// for leftovers at the same time.
var socketMark, fileMark = "@goccl-", "goccl"

// Watch notes the sockets of the processes that this process starts, while they run.
//
// The table of sockets covers the network namespace. Other jobs there, of other users, containers and tests, may
// hold sockets while their descriptors cannot be seen from here. So only those sockets count that this process or a
// descendant was seen to hold. Reading the table is cheap; reading the processes is not, so sockets of others are
// looked up ever more rarely.
type Watch struct {
	every         time.Duration
	stop, stopped chan struct{}
	once          sync.Once

	// Both belong to run until stopped is closed.
	noted  map[string]string // names by inode
	others map[string]int    // sockets that no process here was seen to hold, and how often the table had them
	err    error
}

// NewWatch starts watching, and looks that often. The caller calls Leftovers or End in any case.
func NewWatch(every time.Duration) *Watch {
	w := &Watch{every: every, stop: make(chan struct{}), stopped: make(chan struct{}), noted: map[string]string{},
		others: map[string]int{}}
	go w.run()
	return w
}

func (w *Watch) run() {
	defer close(w.stopped)
	for {
		w.err = errors.Join(w.err, w.look())
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
		orphans, e := w.orphans()
		for inode, name := range orphans {
			e = errors.Join(e, fmt.Errorf("socket %s, inode %s, is left", name, inode))
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

// look notes goccl's abstract sockets that this process and its descendants hold.
func (w *Watch) look() error {
	all, err := sockets()
	if err != nil || !w.due(all) {
		return err
	}
	for _, pid := range family() {
		for _, inode := range inodes(strconv.Itoa(pid)) {
			if name := all[inode]; name != "" {
				w.noted[inode] = name
				delete(w.others, inode)
			}
		}
	}
	return nil
}

// due counts the sockets of a table that are not noted, and says whether to look for their holders. Whoever made a
// socket holds it before the table has it, so the first look finds it; others may receive it later, for which there are
// looks at the 2nd, 4th, 8th … time.
func (w *Watch) due(all map[string]string) (look bool) {
	for inode := range w.others {
		if all[inode] == "" {
			delete(w.others, inode)
		}
	}
	for inode := range all {
		if w.noted[inode] == "" {
			w.others[inode]++
			n := w.others[inode]
			look = look || n&(n-1) == 0
		}
	}
	return look
}

// orphans returns the noted sockets that no process holds, by inode.
func (w *Watch) orphans() (map[string]string, error) {
	all, err := sockets()
	for inode := range all {
		if w.noted[inode] == "" {
			delete(all, inode)
		}
	}
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
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if stat, err := proc.Read("/proc", pid); err == nil {
				children[stat.Parent] = append(children[stat.Parent], pid)
			}
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
		if !strings.Contains(line, socketMark) {
			continue // most lines, cheaper than to cut them
		}
		// A connection has inode 0 until it is accepted; it is found by its listener's inode.
		if f := strings.Fields(line); len(f) == 8 && strings.HasPrefix(f[7], socketMark) && f[6] != "0" {
			names[f[6]] = f[7]
		}
	}
	return names, nil
}
