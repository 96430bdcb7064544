package dsl

// SyncType determines where the threads of a block synchronize around an operation that only a few of them execute.
type SyncType uint8

const (
	SyncNone   SyncType = 0
	SyncBefore SyncType = 1
	SyncAfter  SyncType = 2
	SyncBoth   SyncType = SyncBefore | SyncAfter

	syncUnset SyncType = 4 // not set by the author: both, or what auto-sync finds
)

var syncNames = map[string]SyncType{"none": SyncNone, "before": SyncBefore, "after": SyncAfter, "both": SyncBoth}

// ParseSyncType parses "none", "before", "after" or "both".
func ParseSyncType(s string) (SyncType, bool) {
	t, ok := syncNames[s]
	return t, ok
}

func (t SyncType) String() string { return [...]string{"none", "before", "after", "both"}[t&SyncBoth] }
