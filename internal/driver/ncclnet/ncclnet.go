package ncclnet

import (
	"errors"
	"fmt"
)

// ErrUnavailable: this build cannot load plugins.
var ErrUnavailable = errors.New("ncclnet: built without cgo: plugins cannot be loaded")

// HandleSize is the size of the address of a listener.
const HandleSize = 128

// Kinds of memory, for Register and Properties.Memory.
const (
	Host = 1
	CUDA = 2
)

// Properties describes an adapter.
type Properties struct {
	Name, PCI string
	Memory    int  // Host | CUDA
	Flush     bool // receives need a flush
	Speed     int  // Mbit/s
	MaxBytes  int64
}

// Comm, Listener, Handle and Request are objects of the plugin; 0 is none.
type (
	Comm     uintptr
	Listener uintptr
	Handle   uintptr
	Request  uintptr
)

// Error is a failure that a plugin reported.
type Error struct {
	Plugin, Call string
	Result       int
}

// results are the names of ncclResult_t.
var results = []string{"success", "unhandled CUDA error", "system error", "internal error", "invalid argument",
	"invalid usage", "remote error", "in progress"}

// Error names the plugin, the call and the result.
func (e *Error) Error() string {
	what := fmt.Sprint("result ", e.Result)
	if e.Result >= 0 && e.Result < len(results) {
		what = results[e.Result]
	}
	return fmt.Sprintf("network plugin %s: %s: %s", e.Plugin, e.Call, what)
}
