package testutil

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Substrings of the names of goccl's sockets and files. TestLeft uses other names, because tests of other packages run
// Leftovers at the same time.
var socketMark, fileMark = "@goccl-", "goccl"

// NothingLeft fails the test if Leftovers finds something.
func NothingLeft(t testing.TB, groups ...int) {
	t.Helper()
	if err := Leftovers(groups...); err != nil {
		t.Error(err)
	}
}

// Sockets returns goccl's abstract sockets that the given processes hold now, by inode.
func Sockets(pids ...int) (map[string]string, error) {
	all, err := sockets()
	if err != nil {
		return nil, err
	}
	held := map[string]string{}
	for _, pid := range pids {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			return nil, err
		}
		for _, fd := range fds {
			if link, err := os.Readlink(fd); err == nil {
				inode := strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")
				if name := all[inode]; name != "" {
					held[inode] = name
				}
			}
		}
	}
	return held, nil
}

// NothingLeftOf is NothingLeft for processes whose sockets the caller knows (see Sockets): only those count. It ignores
// other jobs on the machine, of other users and in containers, whose descriptors this process cannot see.
func NothingLeftOf(t testing.TB, held map[string]string, groups ...int) {
	t.Helper()
	if err := leftovers(held, groups); err != nil {
		t.Error(err)
	}
}

// Leftovers returns nil if the processes of the given groups have ended and nothing of goccl is left on the machine: no
// abstract sockets, no files in /dev/shm. It checks for up to two seconds, because the kernel ends a process step by
// step.
//
// Sockets of other programs do not count: a socket is left over if no process holds it. The sockets of a program that
// ends during a check may appear so for a moment; therefore a socket counts only if no process holds it at any check.
func Leftovers(groups ...int) error { return leftovers(nil, groups) }

// leftovers counts only the sockets in held, or all if held is nil.
func leftovers(held map[string]string, groups []int) error {
	var suspects map[string]string
	looks, end := 0, time.Now().Add(2*time.Second)
	for ; ; time.Sleep(10 * time.Millisecond) {
		looks++
		orphans, err := orphanSockets()
		if err != nil {
			return err
		}
		if held != nil {
			maps.DeleteFunc(orphans, func(inode, _ string) bool { return held[inode] == "" })
		}
		if suspects == nil {
			suspects = orphans
		}
		maps.DeleteFunc(suspects, func(inode, _ string) bool { return orphans[inode] == "" })
		err = left(groups)
		if err == nil && len(suspects) == 0 {
			return nil
		}
		if looks < 5 || time.Now().Before(end) { // a check takes a second on a busy machine
			continue
		}
		for inode, name := range suspects {
			err = errors.Join(err, fmt.Errorf("socket %s, inode %s, is left", name, inode))
		}
		return err
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

// orphanSockets returns the names of goccl's abstract sockets that no process holds, by inode.
func orphanSockets() (map[string]string, error) {
	all, err := sockets()
	if err != nil || len(all) == 0 {
		return all, err
	}
	fds, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return nil, err
	}
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err == nil && strings.HasPrefix(link, "socket:[") {
			delete(all, strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]"))
		}
	}
	return all, nil
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
