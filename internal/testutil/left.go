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

// What names of goccl's things contain. TestLeft has names of its own, because tests of other packages look at the same time.
var socketMark, fileMark = "@goccl-", "goccl"

// NothingLeft fails the test with what Leftovers finds.
func NothingLeft(t testing.TB, groups ...int) {
	t.Helper()
	if err := Leftovers(groups...); err != nil {
		t.Error(err)
	}
}

// Sockets are goccl's abstract sockets that the given processes hold now, by inode.
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

// NothingLeftOf is NothingLeft for processes of which the caller knows what they held (see Sockets): only that counts. Other jobs on the machine, of users and in
// containers whose descriptors nobody here may see, do not.
func NothingLeftOf(t testing.TB, held map[string]string, groups ...int) {
	t.Helper()
	if err := leftovers(held, groups); err != nil {
		t.Error(err)
	}
}

// Leftovers is nil if the processes of the given groups are gone, and with them everything that goccl could leave on the machine: sockets with an
// abstract name, files in /dev/shm. It looks for up to two seconds: the kernel ends a process step by step.
//
// What other programs hold is theirs: a socket is left over if no process holds it. A program that ends while we look leaves some that seem so
// for a moment; therefore only a socket that nobody holds at every look counts.
func Leftovers(groups ...int) error { return leftovers(nil, groups) }

// leftovers counts only the sockets in held, or all where that is nil.
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
		if looks < 5 || time.Now().Before(end) { // a look takes a second where many processes fight for the processor
			continue
		}
		for inode, name := range suspects {
			err = errors.Join(err, fmt.Errorf("socket %s, inode %s, is left", name, inode))
		}
		return err
	}
}

// left looks for processes and files.
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

// orphanSockets are the names of goccl's abstract sockets that no process holds, by inode.
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

// sockets are the names of goccl's abstract sockets by inode.
func sockets() (map[string]string, error) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for line := range strings.Lines(string(table)) {
		// An accepted connection has inode 0 until somebody accepts it; its listener's inode tells.
		if f := strings.Fields(line); len(f) == 8 && strings.HasPrefix(f[7], socketMark) && f[6] != "0" {
			names[f[6]] = f[7]
		}
	}
	return names, nil
}
