package testutil

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// NothingLeft fails the test unless the processes of the given groups are gone, and with them everything that goccl could leave on the machine:
// sockets with an abstract name, files in /dev/shm. It waits up to two seconds for that: the kernel ends a process step by step.
func NothingLeft(t testing.TB, groups ...int) {
	t.Helper()
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := left(groups)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Error(err)
			return
		}
	}
}

func left(groups []int) error {
	for _, g := range groups {
		if err := syscall.Kill(-g, 0); err == nil {
			return fmt.Errorf("processes of group %d are left", g)
		}
	}
	// What other programs hold is theirs: a socket is left over if no process holds it.
	before, err := sockets()
	if err != nil {
		return err
	}
	fds, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return err
	}
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err == nil && strings.HasPrefix(link, "socket:[") {
			delete(before, strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]"))
		}
	}
	for inode, name := range before {
		return fmt.Errorf("socket %s, inode %s, is left", name, inode)
	}
	shm, err := os.ReadDir("/dev/shm")
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, e := range shm {
		if strings.Contains(e.Name(), "goccl") {
			return fmt.Errorf("/dev/shm/%s is left", e.Name())
		}
	}
	return nil
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
		if f := strings.Fields(line); len(f) == 8 && strings.HasPrefix(f[7], "@goccl-") && f[6] != "0" {
			names[f[6]] = f[7]
		}
	}
	return names, nil
}
