// Package proc reads what Linux tells about a process. Its function may be called from any goroutine.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Stat is the state of a process.
type Stat struct {
	Name   string // of the program, cut to 15 bytes
	State  byte   // R, S, D, T, Z, …
	Parent int    // 0 if it is not told
	Born   uint64 // start time, which tells the process from a later one of the same number; 0 if it is not told
}

// Read reads the state of a process below root, which is /proc on this host.
func Read(root string, pid int) (s Stat, err error) {
	b, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", root, pid))
	if err != nil {
		return s, err
	}
	// "pid (name) state parent …": the name may contain anything, so it ends at the last parenthesis.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return s, fmt.Errorf("process %d: %q is no state", pid, b)
	}
	f := append(strings.Fields(string(b[end+1:])), make([]string, 20)...)
	if len(f[0]) != 1 {
		return s, fmt.Errorf("process %d: %q is no state", pid, b)
	}
	s.Name, s.State = string(b[open+1:end]), f[0][0]
	s.Parent, _ = strconv.Atoi(f[1])
	s.Born, _ = strconv.ParseUint(f[19], 10, 64)
	return s, nil
}
