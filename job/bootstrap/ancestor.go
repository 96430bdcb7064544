package bootstrap

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// findAncestor searches the ancestors from the parent process upwards. The parent alone is not enough, because a
// launcher may start a program through shells and wrappers.
func findAncestor(names ...string) int {
	for pid, depth := os.Getppid(), 0; pid > 1 && depth < 32; depth++ {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0
		}
		comm, parent, ok := parseStat(stat)
		if !ok {
			return 0
		}
		// The kernel truncates names to 15 bytes.
		if slices.ContainsFunc(names, func(n string) bool { return n[:min(len(n), 15)] == comm }) {
			return pid
		}
		pid = parent
	}
	return 0
}

// parseStat parses "pid (comm) state ppid …". The name may contain anything, so it ends at the last parenthesis.
func parseStat(stat []byte) (comm string, parent int, ok bool) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return "", 0, false
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 2 {
		return "", 0, false
	}
	parent, err := strconv.Atoi(fields[1])
	return string(stat[open+1 : end]), parent, err == nil
}
