package bootstrap

import (
	"os"
	"slices"

	"github.com/goccl/goccl/internal/proc"
)

// findAncestor searches the ancestors from the parent process upwards. The parent alone is not enough, because a
// launcher may start a program through shells and wrappers.
func findAncestor(names ...string) int {
	for pid, depth := os.Getppid(), 0; pid > 1 && depth < 32; depth++ {
		stat, err := proc.Read("/proc", pid)
		if err != nil {
			return 0
		}
		if slices.ContainsFunc(names, func(n string) bool { return n[:min(len(n), 15)] == stat.Name }) {
			return pid
		}
		pid = stat.Parent
	}
	return 0
}
