package observe

import (
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strconv"
)

// Bounds of what a look keeps of the processes of this host. An item takes about 200 bytes: an operation, a wait, or a
// sixteenth of the size of a communicator. An open file is the memory of a process.
const (
	userItems, allItems = 1 << 19, 1 << 21
	userFiles, allFiles = 1 << 10, 1 << 12
	perCommunicator     = 16 // items, besides those above
)

// budget divides a number of things among the users of this host, so that none keeps the others from being seen.
type budget struct {
	each, left int
	used, lost map[uint32]int // by user; lost counts what had no room
}

func newBudget(each, all int) *budget {
	return &budget{each: each, left: all, used: map[uint32]int{}, lost: map[uint32]int{}}
}

// take reports whether a user has room for n more.
func (b *budget) take(uid uint32, n int) bool {
	if n > b.left || n > b.each-b.used[uid] {
		b.lost[uid]++
		return false
	}
	b.left -= n
	b.used[uid] += n
	return true
}

// notes name the users that had no room.
func (b *budget) notes(what string) (list []string) {
	for _, uid := range slices.Sorted(maps.Keys(b.lost)) {
		name := strconv.Itoa(int(uid))
		if u, err := user.LookupId(name); err == nil {
			name = u.Username + " (" + name + ")"
		}
		list = append(list, fmt.Sprintf("user %s: %d %s not shown: their records take more memory than goccl watch gives a "+
			"user, or all users; end those processes, or name others with --pid", name, b.lost[uid], what))
	}
	return list
}

// items is what a rank takes.
func (f *Found) items() int {
	r := f.Rank.Record
	return perCommunicator + len(r.Operations) + len(r.Waits) + max(0, f.Size)/16 + len(r.Ranks)/16
}
